"""What was planned beside what was found: a report says so, and nobody gains by leaving out or adding runs."""

import os
from pathlib import Path

import pytest

from oelm.base.errors import ConfigError
from oelm.base.files import write_text
from oelm.config.record import Record, RunState, StateFile
from oelm.config.registered import RegisteredArm, RegisteredPlan, file_digest, settings_to_plan
from oelm.config.study_role import PlanStamp, StudyRole
from oelm.report.compose import compose
from oelm.report.findings import Finding, Withheld
from oelm.report.groups import Report, report_runs
from oelm.report.texts import Language
from oelm.report.verdicts import Verdict
from oelm.report.write_markdown import as_markdown

from .records import BASELINE_LOSSES, make_arm, make_config, shifted, write_run

METHODS = ("baseline", "oelm", "oelm-random")
LOSSES = (*BASELINE_LOSSES, 2.52, 2.49)
EQUAL = (0.001, -0.002, 0.001, 0.002, -0.001)


def arms_of(methods: tuple[str, ...], **settings: object) -> dict[str, RegisteredArm]:
    """As they are planned, each as the runs of `make_arm` are."""
    configs = {method: make_config(method, 0, **settings) for method in methods}
    return {
        method: RegisteredArm(method=method, control="baseline", settings=settings_to_plan(config, is_tuned=False))
        for method, config in configs.items()
    }


def write_plan(folder: Path, name: str = "plan.json", **changes: object) -> str:
    plan = RegisteredPlan(
        study="s",
        title="A study",
        question=None,
        kind="screening",
        primary="oelm",
        margin=1.05,
        seeds=(0, 1, 2),
        tuning=None,
        arms=arms_of(METHODS),
        data={"stories": "a"},
        git_commit="c" * 40,
        git_dirty=False,
        registered_at="2026-01-01T00:00:00Z",
        runs_before=0,
    ).model_copy(update=changes)
    write_text(folder / name, plan.model_dump_json())
    return file_digest((folder / name).read_bytes())


def study(
    folder: Path,
    digests: list[str],
    seeds: tuple[int, ...] = (0, 1, 2),
    methods: tuple[str, ...] = METHODS,
    primary: str = "oelm",
    margin: float = 1.05,
    runs_before: int = 0,
) -> list[Record]:
    """The runs of a study whose frozen arms are all as good as the baseline, written below `folder`."""
    stamp = PlanStamp(
        digest=digests[0],
        registered_at="2026-01-01T00:00:00Z",
        git_commit="c" * 40,
        git_dirty=False,
        runs_before=runs_before,
        amendments=tuple(digests[1:]),
    )
    records = []
    for method in methods:
        role = StudyRole(study="s", stage="final", cell=method, primary=primary, margin=margin, plan=stamp)
        by = tuple(each * (1 + len(method) / 10) for each in EQUAL) if method != "baseline" else (0.0,) * len(LOSSES)
        losses = shifted(by, LOSSES)
        records += make_arm(method, {seed: losses[seed] for seed in seeds}, study=role)
    for record in records:
        write_run(folder / "final" / f"{record.method}-seed{record.config.seed}", record)
    return records


def finding(report: Report, label: str) -> Finding:
    return next(found for found in report.groups[0].findings if found.arm.label == label)


def confidence(report: Report, label: str) -> float:
    estimate = finding(report, label).estimate
    assert estimate is not None
    return estimate.confidence


def test_a_study_that_kept_to_its_plan_has_an_uncorrected_primary_arm(tmp_path: Path) -> None:
    study(tmp_path, [write_plan(tmp_path)])
    report = report_runs([tmp_path])
    (registration,) = report.registrations
    assert (registration.missing, registration.added, registration.is_first) == ((), (), True)
    assert finding(report, "oelm").verdict is Verdict.NON_INFERIOR
    assert confidence(report, "oelm") == 0.95
    text = as_markdown(report)
    assert "The primary arm, stated before the runs: not corrected." in text
    assert "Exploratory" not in text


def test_a_plan_whose_file_is_not_here_proves_nothing(tmp_path: Path) -> None:
    study(tmp_path, [write_plan(tmp_path)])
    (tmp_path / "plan.json").unlink()
    report = report_runs([tmp_path])
    text = as_markdown(report)
    assert "Its file is not here: missing runs cannot be named." in text
    assert "without a registered plan that would prove it" in text
    assert "stated before the runs" not in text
    assert text.startswith("Exploratory: freezing Q and K (oelm) cost no more than 5 %")
    assert as_markdown(report, Language.CHINESE).startswith("探索性结果：")
    (experiment,) = compose(report, Language.ENGLISH, "").experiments
    assert experiment.about is not None
    assert experiment.about.kind == "exploratory, its registered plan is not here"


def test_without_a_registered_plan_it_is_exploratory(tmp_path: Path) -> None:
    for record in make_arm("baseline", BASELINE_LOSSES) + make_arm("oelm", shifted((0.0, 0.01, 0.0))):
        write_run(tmp_path / f"{record.method}-{record.config.seed}", record)
    assert "Exploratory: no registered plan." in as_markdown(report_runs([tmp_path]))


@pytest.mark.parametrize("left_out", ["oelm-seed1", "baseline-seed2"])
def test_where_a_planned_run_is_missing_there_is_no_verdict(tmp_path: Path, left_out: str) -> None:
    study(tmp_path, [write_plan(tmp_path, seeds=(0, 1, 2, 3))], seeds=(0, 1, 2, 3))
    assert finding(report_runs([tmp_path]), "oelm").verdict is Verdict.NON_INFERIOR
    kept = [folder for folder in sorted((tmp_path / "final").iterdir()) if folder.name != left_out]
    report = report_runs(kept)
    assert (finding(report, "oelm").verdict, finding(report, "oelm").withheld) == (
        Verdict.NO_VERDICT,
        Withheld.INCOMPLETE,
    )
    text = as_markdown(report)
    assert f"Planned runs that are missing: {left_out}." in text
    assert "no verdict, because planned runs or their figures are missing" in text


def test_a_planned_pair_too_few_is_no_call_for_other_seeds(tmp_path: Path) -> None:
    """What is missing stands in the plan; runs of other seeds would not be judged."""
    study(tmp_path, [write_plan(tmp_path, seeds=(0, 1, 2, 3))], seeds=(0, 1, 2, 3))
    report = report_runs([run for run in (tmp_path / "final").iterdir() if run.name.endswith(("seed2", "seed3"))])
    assert finding(report, "oelm").verdict is Verdict.NO_VERDICT
    assert finding(report, "oelm").missing == ()
    text = as_markdown(report)
    assert "Planned runs that are missing: baseline-seed0, oelm-seed0" in text
    assert "oelm train" not in text


WITH_BLIND = (*METHODS, "blind")


def test_where_the_planned_negative_control_is_left_out_that_nothing_shows_says_nothing(tmp_path: Path) -> None:
    """The worst that one can leave out: with it the study says that it cannot tell arms apart."""
    study(tmp_path, [write_plan(tmp_path, arms=arms_of(WITH_BLIND))], methods=WITH_BLIND)
    assert finding(report_runs([tmp_path]), "oelm").withheld is Withheld.CANNOT_TELL
    runs = sorted((tmp_path / "final").iterdir())
    for kept in (
        [run for run in runs if not run.name.startswith("blind")],
        [run for run in runs if run.name != "blind-seed2"],
    ):
        report = report_runs(kept)
        assert finding(report, "oelm").withheld is Withheld.NO_NEGATIVE
        assert "no verdict, because figures of the negative control are missing" in as_markdown(report)
    elsewhere = arms_of(METHODS) | {"wiki-blind": arms_of(("blind",), digest="b" * 16)["blind"]}
    other = tmp_path / "other"
    other.mkdir()
    study(other, [write_plan(other, arms=elsewhere)])
    assert finding(report_runs([other]), "oelm").verdict is Verdict.NON_INFERIOR, "that of other data is not its own"


def test_where_the_planned_control_is_left_out_another_one_does_not_stand_in_for_it(tmp_path: Path) -> None:
    methods = ("baseline", "baseline+shift+gain", "oelm-core")
    arms = arms_of(methods)
    arms["oelm-core"] = arms["oelm-core"].model_copy(update={"control": "baseline+shift+gain"})
    study(tmp_path, [write_plan(tmp_path, arms=arms, primary="oelm-core")], methods=methods, primary="oelm-core")
    assert finding(report_runs([tmp_path]), "oelm-core").verdict is Verdict.NON_INFERIOR
    kept = [run for run in sorted((tmp_path / "final").iterdir()) if not run.name.startswith("baseline+")]
    found = finding(report_runs(kept), "oelm-core")
    assert found.control is not None
    assert (found.control.label, found.withheld) == ("baseline", Withheld.INCOMPLETE)


def test_a_stray_run_of_a_further_arm_does_not_hide_that_planned_ones_are_missing(tmp_path: Path) -> None:
    study(tmp_path, [write_plan(tmp_path, seeds=(0, 1, 2, 3))])
    for record in make_arm("oelm-q", BASELINE_LOSSES):
        write_run(tmp_path / "beside" / str(record.config.seed), record)
    assert finding(report_runs([tmp_path]), "oelm").withheld is Withheld.INCOMPLETE


def test_runs_with_other_settings_than_the_plan_has_are_named_and_not_judged(tmp_path: Path) -> None:
    study(tmp_path, [write_plan(tmp_path, arms=arms_of(METHODS) | arms_of(("oelm",), steps=800))])
    report = report_runs([tmp_path])
    assert {arm.label for arm in report.groups[0].arms} == {"baseline", "oelm-random"}
    text = as_markdown(report)
    said = "Runs with other settings than the plan has, which are not judged: 3 (oelm-seed0, oelm-seed1, oelm-seed2)."
    assert said in text
    assert "Planned runs that are missing: oelm-seed0, oelm-seed1, oelm-seed2." in text


def test_arms_that_were_planned_and_left_out_are_corrected_for(tmp_path: Path) -> None:
    study(tmp_path, [write_plan(tmp_path, primary="oelm-random")], primary="oelm-random")
    assert confidence(report_runs([tmp_path]), "oelm") == 0.95, "the only secondary arm"
    more = arms_of((*METHODS, "oelm-q"))
    other = tmp_path / "other"
    other.mkdir()
    study(other, [write_plan(other, primary="oelm-random", arms=more)], primary="oelm-random")
    assert confidence(report_runs([other]), "oelm") == pytest.approx(0.975)


@pytest.mark.parametrize("seeds", [(), (0,), (0, 1)])
def test_so_are_those_that_have_only_begun(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    digest = write_plan(tmp_path, primary="oelm-random", arms=arms_of((*METHODS, "oelm-global")))
    study(tmp_path, [digest], primary="oelm-random")
    study(tmp_path, [digest], seeds, methods=("oelm-global",), primary="oelm-random")
    assert confidence(report_runs([tmp_path]), "oelm") == pytest.approx(0.975)


@pytest.mark.parametrize("state", [RunState.DIVERGED, RunState.FAILED])
def test_runs_that_diverged_or_failed_are_counted_as_such(tmp_path: Path, state: RunState) -> None:
    study(tmp_path, [write_plan(tmp_path, seeds=(0, 1, 2, 3))], seeds=(0, 1, 2, 3))
    folder = tmp_path / "final" / "oelm-seed3"
    (folder / "record.json").unlink()
    ended = StateFile(
        state=state, step=7, steps=400, pid=1, device="cpu", started_at=0, heartbeat_at=0, sessions=1
    ).model_dump_json()
    write_text(folder / "state.json", ended)
    report = report_runs([tmp_path])
    assert finding(report, "oelm").withheld is Withheld.INCOMPLETE
    text = as_markdown(report)
    assert f"Of these {state.value}: 1 (oelm-seed3)." in text
    assert f"oelm-seed3 ({state.value})" in text


def test_seeds_that_were_added_after_the_runs_are_named_and_not_judged(tmp_path: Path) -> None:
    study(tmp_path, [write_plan(tmp_path)], seeds=(0, 1, 2, 3, 4))
    report = report_runs([tmp_path])
    assert finding(report, "oelm").arm.seeds == (0, 1, 2)
    assert "Runs beyond the plan, which are not judged: 6 (baseline-seed3, " in as_markdown(report)


def test_seeds_that_were_run_beside_the_study_are_not_judged_either(tmp_path: Path) -> None:
    study(tmp_path, [write_plan(tmp_path)])
    for method in METHODS:
        for record in make_arm(method, {7: 2.5}):
            write_run(tmp_path / "beside" / method, record)
    report = report_runs([tmp_path])
    assert {arm.seeds for arm in report.groups[0].arms} == {(0, 1, 2)}
    assert confidence(report, "oelm") == 0.95
    assert "Runs beyond the plan, which are not judged: 3 (baseline-seed7, " in as_markdown(report)


def test_runs_under_several_plans_have_no_uncorrected_arm(tmp_path: Path) -> None:
    study(tmp_path / "one", [write_plan(tmp_path)], seeds=(0, 1, 2))
    other = tmp_path / "two"
    other.mkdir()
    study(other, [write_plan(other, seeds=(3, 4), registered_at="2026-02-01T00:00:00Z")], seeds=(3, 4))
    report = report_runs([tmp_path])
    assert not report.groups[0].comparisons[0].terms.is_fixed
    assert "These runs were made under several plans: all arms corrected." in as_markdown(report)


@pytest.mark.parametrize(("looks", "seeds", "level"), [(1, (0, 1, 2), 0.95), (2, (0, 1, 2, 3, 4), 0.975)])
def test_an_amendment_adds_seeds_only_if_the_plan_allowed_for_another_look(
    tmp_path: Path, looks: int, seeds: tuple[int, ...], level: float
) -> None:
    digests = [
        write_plan(tmp_path, looks=looks),
        write_plan(tmp_path, "amendment-1.json", seeds=(0, 1, 2, 3, 4), looks=9, runs_before=9),
    ]
    study(tmp_path, digests, seeds=(0, 1, 2, 3, 4))
    report = report_runs([tmp_path])
    assert finding(report, "oelm").arm.seeds == seeds
    assert confidence(report, "oelm") == pytest.approx(level)
    assert ("allows for 2 analyses" in as_markdown(report)) == (looks == 2)


def test_an_amendment_from_before_any_result_is_no_look(tmp_path: Path) -> None:
    digests = [write_plan(tmp_path), write_plan(tmp_path, "amendment-1.json", seeds=(0, 1, 2, 3, 4))]
    study(tmp_path, digests, seeds=(0, 1, 2, 3, 4))
    assert finding(report_runs([tmp_path]), "oelm").arm.seeds == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("change", [{"primary": "oelm-random"}, {"margin": 1.2}])
def test_an_amendment_of_primary_arm_or_margin_corrects_all_arms(tmp_path: Path, change: dict) -> None:
    digests = [write_plan(tmp_path), write_plan(tmp_path, "amendment-1.json", runs_before=3, **change)]
    study(tmp_path, digests, **change)
    report = report_runs([tmp_path])
    assert min(confidence(report, label) for label in ("oelm", "oelm-random")) >= 0.95
    assert sorted(confidence(report, label) for label in ("oelm", "oelm-random"))[-1] == pytest.approx(0.975)
    assert "chosen after the runs" in as_markdown(report)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"arms": arms_of(METHODS, steps=800)}, "arms"),
        ({"arms": arms_of(METHODS[:2])}, "arms"),
        ({"tuning": {"grid": [1e-3]}}, "tuning"),
        ({"margin": 1.2, "tuning": {"grid": [1e-3]}}, "margin, tuning"),
    ],
)
def test_so_does_any_other_change_after_runs_had_ended(tmp_path: Path, change: dict, what: str) -> None:
    study(tmp_path, [write_plan(tmp_path), write_plan(tmp_path, "amendment-1.json", runs_before=3, **change)])
    report = report_runs([tmp_path])
    assert not report.groups[0].comparisons[0].terms.is_fixed
    text = as_markdown(report)
    assert f"Changed by an amendment after runs had ended: {what}. All arms corrected." in text
    assert (
        "The primary arm, named before the runs; its plan was amended after runs had ended: all arms corrected." in text
    )
    assert "Chosen after the runs" not in text


@pytest.mark.parametrize("change", [{"margin": 1.2}, {"arms": arms_of((*METHODS, "oelm-q"))}, {"looks": 2}])
def test_what_was_amended_before_any_run_had_ended_was_fixed_before_the_runs(tmp_path: Path, change: dict) -> None:
    margin = change.get("margin", 1.05)
    digests = [
        write_plan(tmp_path),
        write_plan(tmp_path, "amendment-1.json", **change),
        write_plan(tmp_path, "amendment-2.json", runs_before=2, **change),
    ]
    study(tmp_path, digests, margin=margin)
    report = report_runs([tmp_path])
    assert report.groups[0].comparisons[0].terms.is_fixed
    assert "chosen after the runs" not in as_markdown(report)
    assert report.registrations[0].looks == change.get("looks", 1)


@pytest.mark.parametrize("change", [{"primary": "oelm-random"}, {"margin": 1.2}])
def test_records_that_state_something_else_than_their_plan_do_too(tmp_path: Path, change: dict) -> None:
    study(tmp_path, [write_plan(tmp_path)], **change)
    report = report_runs([tmp_path])
    assert "chosen after the runs" in as_markdown(report)
    assert not report.groups[0].comparisons[0].terms.is_fixed


def test_a_plan_that_came_after_runs_fixes_nothing(tmp_path: Path) -> None:
    study(tmp_path, [write_plan(tmp_path, runs_before=4)], runs_before=4)
    report = report_runs([tmp_path])
    assert not report.groups[0].comparisons[0].terms.is_fixed
    assert "Primary arm and margin were not fixed before the runs: all arms corrected." in as_markdown(report)


def test_a_given_primary_arm_that_is_none_is_refused(tmp_path: Path) -> None:
    study(tmp_path, [write_plan(tmp_path)])
    for unknown in ("oelm-core", "baseline", "nonsense"):
        with pytest.raises(ConfigError, match=f"no arm has the method '{unknown}'"):
            report_runs([tmp_path], primary=unknown)


def test_the_primary_arm_of_a_plan_with_axes_and_several_data_sets_is_found() -> None:
    plan = RegisteredPlan.model_construct(
        primary="oelm",
        data={"tiny": "a", "wiki": "b"},
        arms={
            "tiny-oelm-core-lr=1e-3": RegisteredArm(method="oelm-core", control="baseline", settings={}),
            "tiny-oelm-lr=1e-3": RegisteredArm(method="oelm", control="baseline", settings={}),
        },
    )
    assert plan.primary_method == "oelm"


BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}]\n"
    for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize("content", [b"\xff\xfe", f"{BOMB}title: *j".encode(), b"[" * 2000, b"title: [", b"? [a"])
def test_a_damaged_study_file_leaves_the_plan_to_speak(tmp_path: Path, content: bytes) -> None:
    study(tmp_path, [write_plan(tmp_path)])
    (tmp_path / "study.yaml").write_bytes(content)
    (text,) = report_runs([tmp_path]).studies
    assert (text.title, text.file) == ("A study", None)


@pytest.mark.parametrize("kind", ["pipe", "folder", "not text"])
def test_what_is_no_plan_is_passed_over(tmp_path: Path, kind: str) -> None:
    study(tmp_path, [write_plan(tmp_path)])
    (tmp_path / "plan.json").unlink()
    if kind == "pipe":
        os.mkfifo(tmp_path / "plan.json")
    elif kind == "folder":
        (tmp_path / "plan.json").mkdir()
    else:
        (tmp_path / "plan.json").write_bytes(b"\xff")
    (found,) = report_runs([tmp_path]).registrations
    assert found.missing is None, "the plan is not here"


def test_what_was_taken_out_before_the_first_run_is_not_missing(tmp_path: Path) -> None:
    digests = [
        write_plan(tmp_path, seeds=(0, 1, 2, 3, 4), arms=arms_of((*METHODS, "oelm-q"))),
        write_plan(tmp_path, "amendment-1.json"),
    ]
    study(tmp_path, digests)
    report = report_runs([tmp_path])
    assert report.registrations[0].missing == ()
    assert finding(report, "oelm").verdict is Verdict.NON_INFERIOR
