"""Whoever adds, leaves out, renames or amends runs gains nothing: each test bends a study and looks at the verdict."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from oelm.base.errors import CheckpointError
from oelm.base.files import write_text
from oelm.config.methods import control_of
from oelm.config.record import Record
from oelm.config.registered import RegisteredArm, RegisteredPlan, file_digest, settings_to_plan
from oelm.config.run import RunConfig
from oelm.config.study_role import Choice, PlanStamp, StudyRole, Trial, Tuning
from oelm.report.confounds import ConfoundKind
from oelm.report.findings import Finding, Withheld
from oelm.report.groups import Report, build_report, report_runs
from oelm.report.texts import Language
from oelm.report.verdicts import Verdict
from oelm.report.write_markdown import as_markdown

from .records import BASELINE_LOSSES, finetuned, make_arm, make_config, shifted, write_run

EQUAL = (0.002, -0.001, 0.003)
WORSE = (0.20, 0.21, 0.22)
NOTHING = (0.0, 0.0, 0.0)


def write_plan(folder: Path, configs: Mapping[str, RunConfig], name: str = "plan.json", **changes: object) -> str:
    """A plan with these arms, by their names in it."""
    tuned = changes.get("tuning") is not None
    arms = {
        cell: RegisteredArm(
            method=config.method.name,
            control=control_of(config.method),
            settings=settings_to_plan(config, is_tuned=tuned),
        )
        for cell, config in configs.items()
    }
    plan = RegisteredPlan(
        study="s",
        title="A study",
        question=None,
        kind="screening",
        primary="oelm",
        margin=1.05,
        seeds=(0, 1, 2),
        tuning=None,
        arms=arms,
        data={config.data.name: config.data.digest for config in configs.values()},
        git_commit="c" * 40,
        git_dirty=False,
        registered_at="2026-01-01T00:00:00Z",
        runs_before=0,
    ).model_copy(update=changes)
    write_text(folder / name, plan.model_dump_json())
    return file_digest((folder / name).read_bytes())


def role(cell: str, digests: Sequence[str], primary: str = "oelm", tuning: Tuning | None = None) -> StudyRole:
    stamp = PlanStamp(
        digest=digests[0],
        registered_at="2026-01-01T00:00:00Z",
        git_commit="c" * 40,
        git_dirty=False,
        runs_before=0,
        amendments=tuple(digests[1:]),
    )
    return StudyRole(study="s", stage="final", cell=cell, primary=primary, margin=1.05, plan=stamp, tuning=tuning)


def put(folder: Path, records: Sequence[Record]) -> None:
    for record in records:
        study = record.config.study
        name = study.cell if study and study.cell else record.method
        write_run(folder / f"{name}-seed{record.config.seed}", record)


def planned_study(folder: Path, differences: Mapping[str, tuple[float, ...]]) -> None:
    """Methods by how far they lie above the baseline, all of them planned."""
    folder.mkdir(parents=True, exist_ok=True)
    digest = write_plan(folder, {method: make_config(method, 0) for method in differences})
    for method, by in differences.items():
        put(folder / "final", make_arm(method, shifted(by), study=role(method, [digest])))


def finding(report: Report, label: str) -> Finding:
    return next(found for group in report.groups for found in group.findings if found.arm.label == label)


def first_line(report: Report) -> str:
    return as_markdown(report).splitlines()[0]


# --- what an arm is held against ------------------------------------------------------------------------------------

GRID = (1e-3, 3e-3, 1e-2)


def tuning(cell: str, lr: float) -> Tuning:
    trials = tuple(Trial(lr=rate, loss=2.0 if rate == lr else 3.0 + rate) for rate in GRID)
    choice = Choice(cell=cell, lr=lr, at_edge=lr in (GRID[0], GRID[-1]), trials=trials, best=lr)
    return Tuning(grid=GRID, seed=99, steps=100, runs=3, split="validation", measure="loss", choice=choice)


@pytest.mark.parametrize("has_plan", [True, False])
@pytest.mark.parametrize("rate", GRID)
def test_a_rate_that_was_tuned_alike_does_not_choose_the_control(tmp_path: Path, rate: float, has_plan: bool) -> None:
    by = {"baseline": NOTHING, "baseline+shift+gain": (-0.301, -0.302, -0.299), "oelm-lowrank": (-0.2, -0.201, -0.203)}
    rates = dict.fromkeys(by, 3e-3) | {"baseline+shift+gain": rate}
    configs = {method: make_config(method, 0) for method in by}
    digest = write_plan(tmp_path, configs, primary="oelm-lowrank", tuning={"grid": list(GRID)})
    for method, differences in by.items():
        study = role(method, [digest], "oelm-lowrank", tuning(method, rates[method]))
        study = study if has_plan else study.model_copy(update={"plan": None})
        put(tmp_path / "final", make_arm(method, shifted(differences), lr=rates[method], study=study))
    found = finding(report_runs([tmp_path]), "oelm-lowrank")
    assert found.control is not None
    assert (found.control.label, found.verdict) == ("baseline+shift+gain", Verdict.INFERIOR)


def test_a_poor_control_that_an_amendment_adds_is_not_the_control(tmp_path: Path) -> None:
    configs = {"baseline": make_config("baseline", 0, lr=1e-3), "oelm": make_config("oelm", 0, lr=3e-3)}
    digest = write_plan(tmp_path, configs)
    more = {**configs, "baseline-b": make_config("baseline", 0, lr=3e-3)}
    amended = [digest, write_plan(tmp_path, more, "amendment-1.json", runs_before=6, amends=digest)]
    put(tmp_path / "final", make_arm("baseline", BASELINE_LOSSES, lr=1e-3, study=role("baseline", [digest])))
    put(tmp_path / "final", make_arm("oelm", shifted((0.1, 0.11, 0.12)), lr=3e-3, study=role("oelm", [digest])))
    put(tmp_path / "final", make_arm("baseline", shifted(WORSE), lr=3e-3, study=role("baseline-b", amended)))
    found = finding(report_runs([tmp_path]), "oelm")
    assert found.control is not None
    assert (found.control.config.optim.lr, found.verdict) == (1e-3, Verdict.INFERIOR)


@pytest.mark.parametrize("order", [(400, 800), (800, 400)])
def test_an_arm_whose_own_control_is_gone_is_held_against_no_other(tmp_path: Path, order: tuple[int, int]) -> None:
    shift = {400: 0.0, 800: -0.4}
    configs = {f"{m}-{n}": make_config(m, 0, steps=n) for n in order for m in ("baseline", "oelm")}
    digest = write_plan(tmp_path, configs)
    for cell, config in configs.items():
        method, steps = config.method.name, config.train.steps
        by = [shift[steps] + (each if method == "oelm" else 0.0) for each in (0.1, 0.11, 0.12)]
        put(tmp_path / "final", make_arm(method, shifted(tuple(by)), steps=steps, study=role(cell, [digest])))
    whole = report_runs([tmp_path])
    assert {finding(whole, f"oelm steps={n}").verdict for n in order} == {Verdict.INFERIOR}
    assert finding(whole, "baseline steps=400").control is None
    for seed in range(3):
        (tmp_path / f"final/baseline-800-seed{seed}/record.json").unlink()
    rest = report_runs([tmp_path])
    assert finding(rest, "oelm steps=800").withheld is Withheld.INCOMPLETE
    assert finding(rest, "oelm steps=400").verdict is Verdict.INFERIOR


# --- runs that nobody planned ---------------------------------------------------------------------------------------


def test_unplanned_runs_of_the_primary_method_are_not_the_answer(tmp_path: Path) -> None:
    planned_study(tmp_path, {"baseline": NOTHING, "oelm": WORSE})
    put(tmp_path / "also", make_arm("oelm", shifted((0.01, 0.012, 0.011)), lr=2e-3))
    report = report_runs([tmp_path])
    headline = report.groups[0].headline
    assert headline is not None
    assert (headline.arm.config.optim.lr, headline.verdict) == (1e-3, Verdict.INFERIOR)
    assert headline.stands_alone
    assert "cost more than 5 %" in first_line(report)
    other = finding(report, "oelm lr=2e-3")
    assert (other.verdict, other.is_planned, other.is_primary) == (Verdict.NON_INFERIOR, False, False)


def test_the_scatter_of_unplanned_arms_narrows_no_planned_interval(tmp_path: Path) -> None:
    planned_study(tmp_path, {"baseline": NOTHING, "oelm": (0.000, 0.020, 0.031)})
    alone = finding(report_runs([tmp_path]), "oelm").estimate
    others = {"oelm-random": (0.302, 0.293, 0.295), "oelm-q": (0.268, 0.323, 0.315)}
    for method, by in {**others, "orthogonal-trained": (0.296, 0.310, 0.304)}.items():
        put(tmp_path / "also", make_arm(method, shifted(by)))
    found = finding(report_runs([tmp_path]), "oelm")
    assert found.verdict is Verdict.UNDECIDED
    assert found.estimate is not None
    assert alone is not None
    assert found.estimate.ends == alone.ends


@pytest.mark.parametrize("swap", [False, True])
def test_a_negative_control_that_is_made_to_fail_shows_nothing(tmp_path: Path, swap: bool) -> None:
    planned_study(tmp_path, {"baseline": NOTHING, "oelm": EQUAL, "blind": (0.01, 0.012, 0.009)})
    put(tmp_path / "also", make_arm("blind", shifted((0.5, 0.51, 0.52)), lr=1e-6))
    folders = [tmp_path / "final", tmp_path / "also"]
    report = report_runs(folders[::-1] if swap else folders)
    assert finding(report, "oelm").withheld is Withheld.CANNOT_TELL
    comparison = report.groups[0].comparisons[0]
    assert (comparison.negative, comparison.can_tell) == ("blind lr=1e-3", False)


def test_of_several_negative_controls_every_one_must_fail() -> None:
    runs = [
        *make_arm("baseline", BASELINE_LOSSES),
        *make_arm("oelm", shifted(EQUAL)),
        *make_arm("blind", shifted((0.5, 0.51, 0.52))),
    ]
    failing = build_report(runs)
    assert finding(failing, "oelm").verdict is Verdict.NON_INFERIOR
    report = build_report([*runs, *make_arm("blind", shifted((0.01, 0.012, 0.009)), lr=2e-3)])
    assert finding(report, "oelm").withheld is Withheld.CANNOT_TELL


# --- runs that were left out ----------------------------------------------------------------------------------------


def test_a_primary_arm_of_several_data_sets_stays_corrected_when_the_others_are_left_out(tmp_path: Path) -> None:
    digests = {"stories": "a" * 16, "prose": "b" * 16}
    configs = {
        f"{data}-{method}": make_config(method, 0, data=data, digest=digest)
        for data, digest in digests.items()
        for method in ("baseline", "oelm")
    }
    plan = write_plan(tmp_path, configs)
    by = {"stories": (0.010, 0.014, 0.034), "prose": (0.0, 0.10, 0.05)}
    for cell, config in configs.items():
        data, method = config.data.name, config.method.name
        losses = shifted(by[data] if method == "oelm" else NOTHING)
        records = make_arm(method, losses, data=data, digest=digests[data], study=role(cell, [plan]))
        put(tmp_path / "final", records)
    whole = finding(report_runs([tmp_path]), "oelm")
    for file in tmp_path.glob("final/prose-*/record.json"):
        file.unlink()
    rest = finding(report_runs([tmp_path]), "oelm")
    assert not whole.stands_alone
    assert not rest.stands_alone
    assert whole.estimate is not None
    assert rest.estimate is not None
    assert rest.estimate.confidence >= whole.estimate.confidence > 0.95


def test_a_seed_whose_answers_are_gone_is_not_passed_over() -> None:
    base, arm = finetuned("baseline", (0.90, 0.905, 0.902)), finetuned("oelm", (0.893, 0.897, 0.60))
    emptied = [row.model_copy(update={"predictions": "", "labels": ""}) for row in arm[2].evaluations]
    bent = [*base, *arm[:2], arm[2].model_copy(update={"evaluations": tuple(emptied)})]
    assert finding(build_report([*base, *arm]), "oelm").verdict is Verdict.UNDECIDED
    found = finding(build_report(bent), "oelm")
    assert (found.verdict, found.withheld) == (Verdict.NO_VERDICT, Withheld.NO_OUTCOMES)
    assert found.estimate is not None
    assert found.estimate.ends is None
    assert found.estimate.value == pytest.approx(0.883, abs=1e-3)
    for language in Language:
        assert "3" not in as_markdown(build_report(bent), language).splitlines()[0].split("5")[0]


# --- what was computed where, and twice -----------------------------------------------------------------------------


def test_environments_are_compared_pair_by_pair() -> None:
    def computed(records: Sequence[Record], versions: Sequence[str]) -> list[Record]:
        return [
            record.model_copy(update={"environment": record.environment.model_copy(update={"torch": version})})
            for record, version in zip(records, versions, strict=True)
            if record.environment is not None
        ]

    base, arm = make_arm("baseline", BASELINE_LOSSES), make_arm("oelm", shifted(EQUAL))
    crossed = build_report([*computed(base, ("2.9", "2.9", "2.13")), *computed(arm, ("2.13", "2.13", "2.9"))])
    assert ConfoundKind.ENVIRONMENT in {each.kind for each in finding(crossed, "oelm").confounds}
    versions = ("2.9", "2.13", "2.9")
    alike = build_report([*computed(base, versions), *computed(arm, versions)])
    assert ConfoundKind.ENVIRONMENT not in {each.kind for each in finding(alike, "oelm").confounds}


def test_two_records_of_one_run_must_agree_in_their_answers_too(tmp_path: Path) -> None:
    one = finetuned("oelm", (0.9, 0.9, 0.9))[0]
    for name, accuracy in (("a", 0.9), ("b", 0.8)):
        again = finetuned("oelm", (accuracy, 0.9, 0.9))[0]
        same_loss = one.model_copy(update={"evaluations": again.evaluations})
        write_run(tmp_path / name, same_loss)
    with pytest.raises(CheckpointError, match="the same run with different results"):
        report_runs([tmp_path])


# --- intervals ------------------------------------------------------------------------------------------------------


def test_pairs_that_happen_to_be_equal_give_no_interval_without_width() -> None:
    """Where seeds do not shift all arms alike, an arm whose own pairs scatter least is not the surest."""
    lower: Callable[[float], tuple[float, ...]] = lambda by: tuple(loss - by for loss in BASELINE_LOSSES)  # noqa: E731
    runs = [
        *make_arm("baseline+shift+gain", BASELINE_LOSSES),
        *make_arm("oelm-lowrank", lower(0.0)),
        *make_arm("oelm-frame", (2.50, 2.80, 2.27)),
        *make_arm("oelm-core", (2.50, 3.10, 2.05)),
    ]
    found = finding(build_report(runs), "oelm-lowrank").estimate
    assert found is not None
    assert found.ends is not None
    assert math.log(found.ends[1] / found.ends[0]) > 0.01


def test_a_plan_with_several_looks_calls_the_primary_arm_uncorrected(tmp_path: Path) -> None:
    methods = {"baseline": NOTHING, "oelm": EQUAL, "oelm-random": (0.1, 0.11, 0.12)}
    digest = write_plan(tmp_path, {method: make_config(method, 0) for method in methods}, looks=2)
    for method, by in methods.items():
        put(tmp_path / "final", make_arm(method, shifted(by), study=role(method, [digest])))
    report = report_runs([tmp_path])
    found = finding(report, "oelm")
    assert found.estimate is not None
    assert (found.stands_alone, found.estimate.confidence) == (True, 0.975)
    text = as_markdown(report)
    assert "oelm: perplexity ×1.001 (95 % interval over all looks" in text
    assert "The primary arm, stated before the runs: not corrected." in text
    assert "corrected here like all others" not in text


# --- several plans in one report -------------------------------------------------------------------------------------


def other_study(folder: Path, by: Mapping[str, tuple[float, ...]], **settings: object) -> None:
    """Another registered study, with other settings and its own plan."""
    folder.mkdir(parents=True)
    configs = {method: make_config(method, 0, **settings) for method in by}
    digest = write_plan(folder, configs, study="t", primary="oelm-lowrank", registered_at="2026-02-01T00:00:00Z")
    for method, differences in by.items():
        study = role(method, [digest], "oelm-lowrank").model_copy(update={"study": "t"})
        put(folder / "final", make_arm(method, shifted(differences), study=study, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"digest": "b" * 16}, {"steps": 1600}])
def test_a_study_does_not_lose_its_plan_beside_another_one(tmp_path: Path, settings: dict) -> None:
    """Its control is a baseline with extras; the other study has a plain one, on another text or four times shorter."""
    planned_study(tmp_path / "s", {"baseline": NOTHING, "oelm": (0.2, 0.21, 0.22)})
    other_study(tmp_path / "t", {"baseline+shift+gain": NOTHING, "oelm-lowrank": (-0.10, -0.11, -0.12)}, **settings)
    alone, both = report_runs([tmp_path / "t"]), report_runs([tmp_path])
    assert [[arm.label for arm in group.arms] for group in both.groups] == [
        ["baseline", "oelm"],
        ["baseline+shift+gain", "oelm-lowrank"],
    ]
    assert finding(both, "oelm-lowrank").estimate == finding(alone, "oelm-lowrank").estimate
    assert finding(both, "baseline+shift+gain").control is None
    assert all(group.comparisons[0].terms.is_fixed for group in both.groups)


def test_missing_runs_stay_missing_beside_another_study(tmp_path: Path) -> None:
    planned_study(tmp_path / "s", {"baseline": NOTHING, "oelm": (0.0, 0.001, -0.001)})
    for file in (tmp_path / "s/final").glob("baseline-*/record.json"):
        file.unlink()
    other_study(tmp_path / "t", {"baseline": NOTHING, "oelm-lowrank": NOTHING})
    found = finding(report_runs([tmp_path]), "oelm")
    assert found.control is None, "the other study's is not what was planned"


def test_one_run_that_two_studies_planned_is_missing_in_neither(tmp_path: Path) -> None:
    planned_study(tmp_path / "s", {"baseline": NOTHING, "oelm": (0.001, 0.002, 0.0)})
    other_study(tmp_path / "t", {"baseline": NOTHING, "oelm-lowrank": (0.002, 0.001, 0.0)})
    report = report_runs([tmp_path])
    assert [registration.missing for registration in report.registrations] == [(), ()]
    assert [finding(report, label).verdict for label in ("oelm", "oelm-lowrank")] == [Verdict.NON_INFERIOR] * 2
    assert [finding(report, label).pairs for label in ("oelm", "oelm-lowrank")] == [3, 3]


# --- the primary arm, by its name ------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_plan", [True, False])
@pytest.mark.parametrize("left_out", [(), ("low",)])
def test_the_primary_arm_is_the_one_that_is_named_so_not_another_of_its_method(
    tmp_path: Path, left_out: tuple[str, ...], has_plan: bool
) -> None:
    arms = {
        "baseline": ("baseline", 1e-3, NOTHING),
        "low": ("oelm", 2e-3, (0.1, 0.11, 0.12)),
        "high": ("oelm", 1e-3, NOTHING),
    }
    configs = {cell: make_config(method, 0, lr=lr) for cell, (method, lr, _) in arms.items()}
    digest = write_plan(tmp_path, configs, primary="low")
    for cell, (method, lr, by) in arms.items():
        study = role(cell, [digest]).model_copy(update={"is_primary": cell == "low"})
        if cell not in left_out:
            put(tmp_path / "final", make_arm(method, shifted(by), lr=lr, study=study))
    if not has_plan:
        (tmp_path / "plan.json").unlink()
    findings = {
        found.arm.config.optim.lr: found for found in report_runs([tmp_path]).groups[0].findings if found.control
    }
    assert not findings[1e-3].is_primary
    assert not findings[1e-3].stands_alone
    if not left_out:
        assert findings[2e-3].is_primary
        assert findings[2e-3].stands_alone


# --- figures that were left out --------------------------------------------------------------------------------------


@pytest.mark.parametrize("left_out", ["baseline+shift+gain", "oelm-lowrank"])
def test_a_planned_run_that_was_not_asked_is_as_good_as_missing(tmp_path: Path, left_out: str) -> None:
    """Its answers, which are worse than the others', lie beside the record and can be left out without a trace."""
    accuracies = {
        "baseline": (0.80, 0.81, 0.80, 0.81),
        "baseline+shift+gain": (0.90, 0.91, 0.90, 0.91),
        "oelm-lowrank": (0.90, 0.91, 0.90, 0.70),
    }
    configs = {method: make_config(method, 0, lr=1e-4) for method in accuracies}
    digest = write_plan(tmp_path, configs, primary="oelm-lowrank", seeds=(0, 1, 2, 3))
    for method, values in accuracies.items():
        records = finetuned(method, values, study=role(method, [digest], "oelm-lowrank"))
        lost = {"baseline+shift+gain": range(4), "oelm-lowrank": (3,)}[left_out] if method == left_out else ()
        put(tmp_path, [r.model_copy(update={"evaluations": ()}) if i in lost else r for i, r in enumerate(records)])
    found = finding(report_runs([tmp_path]), "oelm-lowrank")
    assert found.withheld is Withheld.INCOMPLETE
