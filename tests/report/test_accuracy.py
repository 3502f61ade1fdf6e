import io
import json

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from oelm.base.errors import ConfigError
from oelm.config.record import Evaluation
from oelm.report.accuracy import accuracy_rows, as_markdown
from oelm.report.output import OutputFormat, compare_and_write
from oelm.report.statistics import Verdict

from .records import make_config, make_record, write_run


def finetuned(method, accuracies, lr=1e-4):
    """One run per accuracy, with seeds 0, 1, ...; the best checkpoint is half a point better."""
    return [
        make_record(make_config(method, seed, lr=lr), 0.5).model_copy(
            update={
                "task": "classification",
                "evaluations": tuple(
                    Evaluation(
                        name="dev",
                        checkpoint=checkpoint,
                        step=10,
                        measures={"accuracy": accuracy + gain, "f1": accuracy, "loss": 0.4},
                        predictions="0 1",
                        labels="0 1",
                    )
                    for checkpoint, gain in (("last", 0.0), ("best", 0.005))
                ),
            }
        )
        for seed, accuracy in enumerate(accuracies)
    ]


BASELINE = (0.90, 0.91, 0.89)


def row_of(rows, method):
    return next(row for row in rows if row.arm.label == method)


def test_differences_are_paired_and_in_points():
    rows = accuracy_rows([*finetuned("baseline", BASELINE), *finetuned("oelm", (0.88, 0.895, 0.87))])
    row = row_of(rows, "oelm")
    differences = 100 * (np.array([0.88, 0.895, 0.87]) - np.array(BASELINE))
    expected = stats.ttest_1samp(differences, 0).confidence_interval()
    assert row.points == pytest.approx(differences.mean())
    assert row.points + row.half_width == pytest.approx(expected.high)
    assert row.best_mean == pytest.approx(row.mean + 0.005)
    assert row_of(rows, "baseline").control is None


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [
        ((0.91, 0.92, 0.90), Verdict.BETTER),
        ((0.89, 0.90, 0.8801), Verdict.NON_INFERIOR),
        ((0.80, 0.81, 0.7901), Verdict.INFERIOR),
        ((0.90, 0.82, 0.89), Verdict.UNDECIDED),
    ],
)
def test_every_verdict(accuracies, verdict):
    shaken = tuple(value + 1e-5 * index for index, value in enumerate(accuracies))  # equal differences have no spread
    rows = accuracy_rows([*finetuned("baseline", BASELINE), *finetuned("oelm", shaken)])
    assert row_of(rows, "oelm").verdict is verdict


def test_two_seeds_give_no_verdict():
    rows = accuracy_rows([*finetuned("baseline", BASELINE[:2]), *finetuned("oelm", (0.8, 0.8))])
    assert row_of(rows, "oelm").verdict is Verdict.NO_VERDICT


def test_learning_rates_that_differ_are_named_and_equal_ones_are_not():
    same = [*finetuned("baseline", BASELINE), *finetuned("oelm", BASELINE)]
    other = [*finetuned("baseline", BASELINE), *finetuned("oelm", BASELINE, lr=3e-4)]
    assert "Learning rates differ" not in as_markdown(accuracy_rows(same))
    assert "Learning rates differ" in as_markdown(accuracy_rows(other))


def test_the_command_chooses_by_task(tmp_path):
    for record in [*finetuned("baseline", BASELINE), *finetuned("oelm", (0.88, 0.89, 0.87))]:
        write_run(tmp_path / "ft" / f"{record.method}-{record.config.seed}", record)
    console = Console(width=80, record=True, file=io.StringIO())
    compare_and_write([tmp_path / "ft"], 1.05, console, OutputFormat.TABLE)
    text = console.export_text()
    assert "90.00 91.00 89.00" in text
    assert max(map(len, text.splitlines())) <= 80
    console = Console(width=80, record=True, file=io.StringIO())
    compare_and_write([tmp_path / "ft"], 1.05, console, OutputFormat.JSON)
    assert {row["method"] for row in json.loads(console.export_text())} == {"baseline", "oelm"}
    write_run(tmp_path / "lm", make_record(make_config("baseline", 0), 1.0))
    with pytest.raises(ConfigError, match="compare them apart"):
        compare_and_write([tmp_path], 1.05, console, OutputFormat.TABLE)
