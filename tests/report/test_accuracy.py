import io
import json

import numpy as np
import pytest
from rich.console import Console

from oelm.config.record import Evaluation, Record
from oelm.report.accuracy import AccuracyComparison, AccuracyFinding, Span, compare_accuracies, judge_share
from oelm.report.confounds import ConfoundKind
from oelm.report.markdown import accuracy_markdown
from oelm.report.output import OutputFormat, compare_and_write
from oelm.report.statistics import Verdict
from oelm.report.texts import CHINESE

from .records import make_config, make_record, write_run

EXAMPLES = 1000
LABELS = np.arange(EXAMPLES) % 2
BASELINE = (0.90, 0.91, 0.89)


def evaluation(accuracy: float, checkpoint: str, name: str = "dev") -> Evaluation:
    """The first examples are right, the rest wrong: arms agree on what is easy."""
    right = np.arange(EXAMPLES) < round(accuracy * EXAMPLES)
    predictions = np.where(right, LABELS, 1 - LABELS)
    return Evaluation(
        name=name,
        checkpoint=checkpoint,
        step=10,
        measures={"accuracy": float(right.mean()), "f1": accuracy, "loss": 0.4},
        predictions=" ".join(map(str, predictions)),
        labels=" ".join(map(str, LABELS)),
    )


def finetuned(method: str, accuracies: tuple[float, ...], lr: float = 1e-4) -> list[Record]:
    """One run per accuracy, with seeds 0, 1, ...; the best checkpoint is half a point better."""
    return [
        make_record(make_config(method, seed, lr=lr), 0.5).model_copy(
            update={
                "task": "classification",
                "evaluations": (evaluation(accuracy, "last"), evaluation(accuracy + 0.005, "best")),
            }
        )
        for seed, accuracy in enumerate(accuracies)
    ]


def found(comparison: AccuracyComparison, method: str) -> AccuracyFinding:
    return next(finding for finding in comparison.findings if finding.arm.label == method)


def test_differences_are_paired_in_points_and_as_a_share() -> None:
    comparison = compare_accuracies([*finetuned("baseline", BASELINE), *finetuned("oelm", (0.88, 0.895, 0.87))])
    row = found(comparison, "oelm")
    assert row.points is not None
    assert row.share is not None
    assert row.points.value == pytest.approx(100 * (0.88 + 0.895 + 0.87 - 2.70) / 3)
    assert row.share.value == pytest.approx((0.88 + 0.895 + 0.87) / 2.70)
    assert row.points.lower is not None
    assert row.points.lower < row.points.value < row.points.upper  # type: ignore[operator]
    assert row.best_mean == pytest.approx(row.mean + 0.005)
    assert row.examples == EXAMPLES
    assert found(comparison, "baseline").control is None


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [
        (1.001, 1.02, Verdict.BETTER),
        (1.0, 1.02, Verdict.NON_INFERIOR),
        (0.95, 0.99, Verdict.NON_INFERIOR),
        (0.949, 0.99, Verdict.UNDECIDED),
        (0.90, 0.95, Verdict.UNDECIDED),
        (0.90, 0.949, Verdict.INFERIOR),
    ],
)
def test_verdicts_and_their_neighbours(lower: float, upper: float, verdict: Verdict) -> None:
    assert judge_share(Span((lower + upper) / 2, lower, upper)) is verdict
    assert judge_share(Span(1.0)) is Verdict.NO_VERDICT


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [
        ((0.95, 0.96, 0.945), Verdict.BETTER),
        ((0.89, 0.90, 0.885), Verdict.NON_INFERIOR),
        ((0.70, 0.72, 0.69), Verdict.INFERIOR),
        ((0.90, 0.78, 0.89), Verdict.UNDECIDED),
    ],
)
def test_every_verdict_from_runs(accuracies: tuple[float, ...], verdict: Verdict) -> None:
    comparison = compare_accuracies([*finetuned("baseline", BASELINE), *finetuned("oelm", accuracies)])
    assert found(comparison, "oelm").verdict is verdict


def test_two_seeds_give_an_interval_and_no_verdict() -> None:
    row = found(compare_accuracies([*finetuned("baseline", BASELINE[:2]), *finetuned("oelm", (0.8, 0.8))]), "oelm")
    assert row.points is not None
    assert row.points.lower is not None
    assert row.verdict is Verdict.NO_VERDICT
    assert row.missing


def test_the_primary_arm_is_uncorrected_and_the_others_are_widened() -> None:
    records = [
        *finetuned("baseline", BASELINE),
        *finetuned("oelm", (0.86, 0.84, 0.87)),
        *finetuned("oelm-random", (0.85, 0.86, 0.85)),
        *finetuned("oelm-q", (0.86, 0.85, 0.86)),
    ]
    with_primary = compare_accuracies(records, primary="oelm")
    assert found(with_primary, "oelm").share.confidence == pytest.approx(0.95)  # type: ignore[union-attr]
    assert found(with_primary, "oelm-random").share.confidence > 0.95  # type: ignore[union-attr]
    assert found(with_primary, "oelm").is_primary
    assert "after Holm" in accuracy_markdown(with_primary)


def test_learning_rates_that_differ_are_named_and_equal_ones_are_not() -> None:
    same = compare_accuracies([*finetuned("baseline", BASELINE), *finetuned("oelm", BASELINE)])
    other = compare_accuracies([*finetuned("baseline", BASELINE), *finetuned("oelm", BASELINE, lr=3e-4)])
    assert found(same, "oelm").confounds == ()
    assert [(c.kind, c.what) for c in found(other, "oelm").confounds] == [(ConfoundKind.SETTING, "lr")]
    assert "Confound: lr differs (3e-4 against 1e-4)." in accuracy_markdown(other)
    assert "混杂因素：lr 不同（3e-4 对 1e-4）。" in accuracy_markdown(other, CHINESE)


def test_the_command_shows_every_task_in_its_own_way(tmp_path) -> None:
    for record in [*finetuned("baseline", BASELINE), *finetuned("oelm", (0.88, 0.89, 0.87))]:
        write_run(tmp_path / "ft" / f"{record.method}-{record.config.seed}", record)
    console = Console(width=80, record=True, file=io.StringIO())
    compare_and_write([tmp_path / "ft"], None, console, OutputFormat.TABLE)
    text = console.export_text()
    assert "90.00 91.00 89.00" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    write_run(tmp_path / "lm", make_record(make_config("baseline", 0), 1.0))
    console = Console(width=80, record=True, file=io.StringIO())
    compare_and_write([tmp_path], None, console, OutputFormat.JSON)
    groups = json.loads(console.export_text())["groups"]
    assert {(group["task"], len(group["arms"])) for group in groups} == {
        ("classification", 2),
        ("language-modelling", 1),
    }
