"""Simulated studies from files to verdicts; `make simulations` counts more of them.

What `judge` does with ten thousand studies at once (`report/test_simulations.py`) is what a report does with each.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from oelm.config.measure import PERPLEXITY
from oelm.report.groups import Report
from oelm.report.texts import Language
from oelm.report.verdicts import Sample, Verdict, judge
from oelm.report.write_markdown import as_markdown

from .designs import AT_MARGIN, HELD, NOT_HELD, claims, drawn, judged
from .simulating import ALL, add_to, most, wrong
from .written_study import MARGIN, METHODS

COUNTED = Path(__file__).resolve().parents[2] / "results" / "reliability" / "simulations.json"
FEW = 60


@pytest.mark.slow
@pytest.mark.parametrize("name", HELD)
def test_a_wrong_claim_is_rare(name: str) -> None:
    assert wrong(HELD[name], FEW, (99,)) / FEW <= most(FEW)


def test_the_committed_counts_hold_five_percent_and_show_what_a_plan_is_for() -> None:
    counted = json.loads(COUNTED.read_text())["designs"]
    assert list(counted) == list(ALL)
    assert min(row["studies"] for row in counted.values()) >= 500
    shares = {name: row["wrong"] / row["studies"] for name, row in counted.items()}
    assert [name for name in HELD if shares[name] > most(counted[name]["studies"])] == []
    assert [name for name in NOT_HELD if shares[name] <= 0.05] == []


def verdicts(report: Report) -> dict[str, Verdict]:
    return {found.arm.label: found.verdict for found in report.groups[0].findings if found.control}


def test_a_report_says_what_judge_says(tmp_path: Path) -> None:
    generator, said = np.random.default_rng(5), set[str]()
    for place, truth in enumerate((0.0, 0.01, AT_MARGIN, 0.1, -0.05)):
        for spread in ((1, 1, 1, 1, 1), (3, 1, 1, 1, 1), (1, 2, 4, 0.5, 1)):
            values, folder = drawn(generator, spread, 3, truth), tmp_path / f"{place} {spread}"
            folder.mkdir()
            found = judge(Sample(2.5 + values), [None, 0, 0, 0, 0], PERPLEXITY, MARGIN, primary=1)
            expected = {method: str(each.verdict) for method, each in zip(METHODS, found, strict=True) if each}
            assert verdicts(judged(folder, values)) == expected
            said |= set(expected.values())
    assert said == {"better", "non-inferior", "undecided", "inferior"}


def test_a_claim_is_seen_and_one_without_a_plan_is_called_exploratory(tmp_path: Path) -> None:
    values = drawn(np.random.default_rng(1), (1, 1), 3, 0.0)
    for is_registered in (True, False):
        folder = tmp_path / str(is_registered)
        folder.mkdir()
        report = judged(folder, values, is_registered=is_registered)
        assert claims(report)
        assert as_markdown(report).startswith("Exploratory: ") != is_registered
        assert as_markdown(report, Language.CHINESE).startswith("探索性结果：") != is_registered
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    report = judged(lacking, np.where([[False] * 3, [False, True, False]], np.nan, values))
    assert not claims(report)
    assert "Planned runs that are missing: oelm-seed1." in as_markdown(report)


def test_pieces_are_added_up_and_none_is_counted_twice(tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    add_to(file, "equal variances", 10, 1, seed=1)
    add_to(file, "equal variances", 20, 0, seed=2)
    assert json.loads(file.read_text())["designs"] == {"equal variances": {"seeds": [1, 2], "studies": 30, "wrong": 1}}
    with pytest.raises(SystemExit, match="has these studies already"):
        add_to(file, "equal variances", 20, 0, seed=2)
