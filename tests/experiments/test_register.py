"""A plan is written once, every record names it, and a study that has changed is refused or amended."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from oelm.base.errors import ConfigError
from oelm.config.record import RunState
from oelm.config.registered import RegisteredPlan, file_digest
from oelm.config.study_role import PlanStamp
from oelm.experiments.register import read_plan, register, under_plan
from oelm.report.groups import report_runs
from oelm.report.write_markdown import as_markdown
from oelm.train.folder import new_state
from train.toys import trained

from .toy_studies import runs_of, write_study


def registered(folder: Path, *, amend: bool = False, **changes: Any) -> PlanStamp:
    """Start the study, as it is with these changes."""
    (folder / "out").mkdir(exist_ok=True)
    return register(runs_of(write_study(folder / "study.yaml", **changes), folder / "out"), amend=amend)


def test_the_plan_is_written_once_with_what_will_be_judged(tmp_path: Path) -> None:
    stamp = registered(tmp_path)
    file = tmp_path / "out" / "plan.json"
    content = file.read_bytes()
    plan = RegisteredPlan.model_validate_json(content)
    assert (plan.primary, plan.margin, plan.seeds, plan.tuning) == ("oelm", 1.05, (0, 1), None)
    assert {name: arm.control for name, arm in plan.arms.items()} == {"baseline": "baseline", "oelm": "baseline"}
    settings = plan.arms["oelm"].settings
    assert settings["train"]["steps"] == 200
    assert settings["optim"]["lr"] == 1e-2
    assert "seed" not in settings
    assert list(plan.data) == ["toy"]
    assert plan.runs_before == 0
    assert stamp.digest == file_digest(content)
    assert registered(tmp_path) == stamp, "the same study goes on under the same plan"
    assert registered(tmp_path, title="Other words") == stamp, "what is not judged may change"
    assert registered(tmp_path, train={"save_every": 7}) == stamp
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": [0, 1, 2]}, "seeds is 0, 1 there and 0, 1, 2 here"),
        ({"margin": 1.1}, "margin is 1.05 there and 1.1 here"),
        ({"primary": "baseline"}, "primary is oelm there and baseline here"),
        ({"arms": ["baseline", "oelm", "oelm-core"]}, "there is no arm oelm-core there"),
        ({"arms": ["oelm"]}, "there is no arm baseline here"),
        ({"train": {"steps": 300}}, "train.steps is 200 there and 300 here"),
        ({"train": {"lr": None}, "tuning": {"grid": [1e-3, 1e-2]}}, "tuning is None there"),
    ],
)
def test_a_study_that_has_changed_is_refused_with_what_differs(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    registered(tmp_path)
    before = sorted((tmp_path / "out").iterdir())
    with pytest.raises(ConfigError) as refused:
        registered(tmp_path, **changes)
    assert words in str(refused.value)
    assert "--amend" in refused.value.fix
    assert "--out-dir" in refused.value.fix
    assert sorted((tmp_path / "out").iterdir()) == before


def test_a_tuned_rate_is_no_part_of_the_plan(tmp_path: Path) -> None:
    tuning = {"grid": [1e-3, 1e-2]}
    registered(tmp_path, train={"lr": None, "min_lr": 1e-5}, tuning=tuning)
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert plan["tuning"]["grid"] == tuning["grid"]
    assert not {"lr", "min_lr_ratio"} & plan["arms"]["oelm"]["settings"]["optim"].keys()


def test_an_amendment_stands_beside_the_plan_which_stays(tmp_path: Path) -> None:
    stamp = registered(tmp_path)
    content = (tmp_path / "out" / "plan.json").read_bytes()
    assert registered(tmp_path, amend=True) == stamp, "there is nothing to amend"
    amended = registered(tmp_path, amend=True, seeds=[0, 1, 2])
    amendment = (tmp_path / "out" / "amendment-1.json").read_bytes()
    assert (tmp_path / "out" / "plan.json").read_bytes() == content
    assert amended == stamp.model_copy(update={"amendments": (file_digest(amendment),)})
    assert RegisteredPlan.model_validate_json(amendment).amends == stamp.digest
    assert registered(tmp_path, seeds=[0, 1, 2]) == amended, "from now on that is the plan"
    with pytest.raises(ConfigError, match=r"amendment-1\.json.*seeds is 0, 1, 2 there and 0, 1 here"):
        registered(tmp_path)
    again = registered(tmp_path, amend=True, seeds=[0, 1])
    assert len(again.amendments) == 2


def test_a_copy_under_another_name_is_no_amendment(tmp_path: Path) -> None:
    stamp = registered(tmp_path)
    shutil.copy(tmp_path / "out" / "plan.json", tmp_path / "out" / "amendment-1 (copy).json")
    assert registered(tmp_path) == stamp


def test_a_damaged_plan_is_not_passed_over(tmp_path: Path) -> None:
    registered(tmp_path)
    (tmp_path / "out" / "plan.json").write_text("{")
    with pytest.raises(Exception, match="put it back as it was"):
        registered(tmp_path)


def test_a_comparison_says_by_what_plan_and_which_runs_are_missing(tmp_path: Path) -> None:
    short = {"steps": 5, "validate_every": 5, "save_every": 5}
    stamp = registered(tmp_path, train=short)
    out = tmp_path / "out"
    runs = under_plan(runs_of(tmp_path / "study.yaml", out).final(), stamp)
    for run in runs[:3]:
        record = trained(run.config, run.folder)
        assert record.config.study is not None
        assert (record.config.study.plan, record.config.study.cell) == (stamp, run.cell.name)
        assert record.fingerprint == run.config.model_copy(update={"study": None}).fingerprint

    def said(*paths: Path) -> str:
        return as_markdown(report_runs(paths))

    line = f"Plan registered {stamp.registered_at} by commit {(stamp.git_commit or '?')[:12]}"
    for paths in ((out,), (out / "final",), tuple(run.folder for run in runs[:3])):
        shown = said(*paths)
        assert line in shown
        assert "before the first run. " in shown
        assert "Planned runs that are missing: oelm-seed1." in shown
    (out / "plan.json").rename(tmp_path / "plan.away")
    assert "Its file is not here" in said(out)
    (out / "plan.json").write_text((tmp_path / "plan.away").read_text().replace("1.05", "1.10"))
    assert "Its file is not here" in said(out), "one that was changed is not the one"


def test_a_plan_that_came_after_runs_says_so(tmp_path: Path) -> None:
    (tmp_path / "out" / "final" / "x").mkdir(parents=True)
    (tmp_path / "out" / "final" / "x" / "record.json").write_text("{}")
    assert registered(tmp_path).runs_before == 1


@pytest.mark.parametrize(
    ("state", "measures", "seen"),
    [(RunState.DIVERGED, {}, 1), (RunState.INTERRUPTED, {"loss": 2.0}, 1), (RunState.FAILED, {}, 0)],
)
def test_what_has_no_record_can_have_been_seen_too(
    tmp_path: Path, state: RunState, measures: dict[str, float], seen: int
) -> None:
    """Whoever knows that an arm diverges, or how it stands halfway, amends the plan after the fact."""
    registered(tmp_path)
    folder = tmp_path / "out" / "final" / "oelm-seed0"
    folder.mkdir(parents=True)
    known = new_state(0, 10, "cpu", sessions=1).model_copy(update={"state": state, "measures": measures})
    (folder / "state.json").write_text(known.model_dump_json())
    registered(tmp_path, amend=True, margin=1.2)
    amendment = read_plan(tmp_path / "out" / "amendment-1.json")
    assert amendment.runs_before == seen
