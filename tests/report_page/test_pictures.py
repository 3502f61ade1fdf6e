"""The two pictures at the top: quality against saving, and what is frozen in attention."""

from functools import cache
from pathlib import Path

import pytest

from oelm.report.attention_drawing import SIZE
from oelm.report.compose import compose
from oelm.report.content import AttentionDrawing, Experiment
from oelm.report.groups import build_report, report_runs
from oelm.report.record_files import load_records
from oelm.report.texts import Language

from .runs import make_study

RESULTS = Path(__file__).resolve().parents[2] / "results"


@cache
def experiment(study: str) -> Experiment:
    records = make_study() if study == "ten arms" else load_records([RESULTS / study])
    return compose(build_report(records), Language.ENGLISH, "").experiments[0]


@pytest.mark.parametrize("study", ["quickstart", "tinystories/final", "sst2/final", "ten arms"])
def test_the_picture_the_rows_and_the_opening_have_one_interval(study: str) -> None:
    found = experiment(study)
    assert found.price is not None
    forest = found.rows[0].forest
    assert forest is not None
    lanes = {lane.label: f"{lane.estimate} ({lane.interval})" for group in forest.groups for lane in group.lanes}
    for plot in found.price.plots:
        assert {dot.words.partition(":")[0] for dot in plot.dots} == set(lanes)
        for dot in plot.dots:
            label, _, words = dot.words.partition(": ")
            assert words.startswith(lanes[label])
            assert dot.ends is not None
            assert dot.ends[0] <= dot.y <= dot.ends[1]
    figures = [text for _, text in found.verdict.figures]
    assert f"{figures[0]} ({figures[1]})" in lanes.values()
    for table in (table for view in found.views if view.anchor == "ablation" for table in view.tables):
        rows = [[cell.text for cell in row] for row in table.rows if row[1].text.startswith("baseline")]
        assert all(f"{row[3]} ({row[4]})" == lanes[row[2]] for row in rows)


def test_rows_of_another_length_are_not_called_equally_long() -> None:
    changes = {
        study: {step.change.value for step in report_runs([RESULTS / study]).groups[0].ablation}
        for study in ("tinystories/final", "sst2/final")
    }
    assert "direction" in changes["tinystories/final"]
    assert changes["sst2/final"] == {"freezing", "direction-and-scale"}


@pytest.mark.parametrize(
    ("study", "title", "kind"),
    [
        ("tinystories", "Which frozen attention reaches the baseline?", "screening · exploratory, no registered plan"),
        ("screening/tinystories", "Which trained Q/K weights does attention need?", "screening · registered plan"),
        ("quickstart", "Six methods with paired seeds", "demonstration · registered plan"),
    ],
)
def test_the_study_says_what_it_asks_and_whether_that_was_fixed(study: str, title: str, kind: str) -> None:
    about = compose(report_runs([RESULTS / study]), Language.ENGLISH, "").experiments[0].about
    assert about is not None
    assert about.title.startswith(title)
    assert bool(about.title) == bool(about.question) == bool(title)
    assert about.kind == kind


@pytest.mark.parametrize("study", ["quickstart", "tinystories/final", "sst2/final", "ten arms"])
def test_labels_do_not_cover_each_other(study: str) -> None:
    price = experiment(study).price
    assert price is not None
    for plot in price.plots:
        assert all(dot.label is not None for dot in plot.dots)
        places = [(dot.x, dot.y) for dot in plot.dots]
        assert len({x for x, _ in places}) == len(places), "dots over one place stand side by side"


def test_a_dot_at_the_end_of_the_axis_says_where_it_belongs() -> None:
    price = experiment("smollm2/final").price
    assert price is not None
    for plot in price.plots:
        names = {dot.words.partition(":")[0]: dot.label.text for dot in plot.dots if dot.label}
        assert names == {"keep": "★ keep", "lora": "lora", "blind": "blind ↑ ×20.986"}


def states(drawing: AttentionDrawing) -> dict[str, str]:
    return {box.matrix: box.state for box in drawing.boxes if box.matrix}


@pytest.mark.parametrize(
    ("arm", "expected", "extras"),
    [
        ("baseline", {"Q": "trained", "K": "trained", "V": "trained", "O": "trained"}, ()),
        ("oelm", {"Q": "frozen", "K": "frozen", "V": "trained", "O": "trained"}, ()),
        ("oelm-frame", {"Q": "absent", "K": "absent", "V": "trained", "O": "trained"}, ("key shift", "gain")),
        ("oelm-q+shift+gain", {"Q": "absent", "K": "trained", "V": "trained", "O": "trained"}, ("key shift", "gain")),
        ("oelm-core", {"Q": "frozen", "K": "frozen", "V": "trained", "O": "trained"}, ("key shift", "gain", "core")),
    ],
)
def test_attention_is_drawn_from_what_the_record_counted(
    arm: str, expected: dict[str, str], extras: tuple[str, ...]
) -> None:
    drawings = {each.arm.text: each for each in experiment("tinystories/final").drawings}
    drawing = drawings[arm]
    assert states(drawing) == expected
    assert next((box.lines for box in drawing.boxes if box.x == 146), ()) == extras
    assert all(box.x >= 0 and box.x + box.width <= SIZE[0] and box.y + box.height <= SIZE[1] for box in drawing.boxes)


def test_a_plan_that_changes_is_partly_frozen_and_the_headline_is_drawn_first() -> None:
    found = experiment("ten arms")
    drawings = {each.arm.text: each for each in found.drawings}
    changing = "oelm-random-matched+all-but-last=1+until=0.25"
    assert found.verdict.sentence.startswith(f"{found.drawings[0].arm.text}: ")
    assert len(drawings) == 10
    assert states(drawings["oelm"])["Q"] == "frozen"
    assert states(drawings[changing])["Q"] == "partly"
