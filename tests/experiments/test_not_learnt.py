"""A study that is far too short: all arms look alike, and nothing may be concluded from it."""

from pathlib import Path

import pytest

from oelm.experiments.register import register, under_plan
from oelm.report.findings import Withheld
from oelm.report.groups import report_runs
from oelm.report.verdicts import Verdict
from train.toys import trained

from .toy_studies import runs_of, write_study


@pytest.mark.slow
def test_twelve_steps_of_training_give_no_verdict(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    short = {"steps": 12, "validate_every": 6, "save_every": 12, "lr": 1e-3}
    planned = runs_of(write_study(tmp_path / "study.yaml", seeds=[0, 1, 2], train=short), out)
    for run in under_plan(planned.final(), register(planned, amend=False)):
        record = trained(run.config, run.folder)
        assert record.answer_entropy is not None
        assert record.loss > 0.9 * record.answer_entropy
    (found,) = [each for each in report_runs([out]).groups[0].findings if each.control]
    assert (found.verdict, found.withheld) == (Verdict.NO_VERDICT, Withheld.NOT_LEARNT)
    assert found.estimate is not None
    assert found.estimate.upper is not None
    assert found.estimate.upper < 1.05, "the interval alone would have called it non-inferior"
