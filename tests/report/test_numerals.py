import pytest

from oelm.config.measure import ACCURACY, PERPLEXITY, CompareScale, Measure
from oelm.report import numerals
from oelm.report.texts import ENGLISH, Language, Texts


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (96, "96"),
        (1_092_352, "1.09M"),
        (44_896_768, "44.9M"),
        (999_600, "1.00M"),
        (999_400, "999K"),
        (10**9, "1.00B"),
    ],
)
def test_counts(number: int, text: str) -> None:
    assert numerals.count(number) == text


def test_numbers_keep_what_means_something() -> None:
    assert [numerals.percent(share) for share in (0.0561, -0.0001, -0.02, None)] == ["5.6 %", "0.0 %", "-2.0 %", "–"]
    assert [numerals.milliseconds(seconds) for seconds in (0.0061, 0.0301, 0.184)] == ["6.10", "30.1", "184"]
    assert numerals.count(None) == "–"
    assert [numerals.small(value) for value in (0.0, 0.5, 2e-7)] == ["0.000", "0.500", "2e-7"]
    assert [numerals.duration(seconds) for seconds in (30, 600, 9000)] == ["30 s", "10 min", "2.5 h"]


@pytest.mark.parametrize(
    ("measure", "value", "text", "alone"),
    [(PERPLEXITY, 1.0499, "1.050", "×1.050"), (PERPLEXITY, 345.6, "346", "×346"), (ACCURACY, 0.979, "97.9", "97.9 %")],
)
def test_units_stand_beside_numbers(measure: Measure, value: float, text: str, alone: str) -> None:
    assert measure.scale is not None
    written = numerals.on_scale(value, measure.scale, measure)
    assert (written.text, str(written)) == (text, alone)


def test_criteria_are_said_as_people_say_them() -> None:
    assert [numerals.criterion(margin, PERPLEXITY, ENGLISH) for margin in (1.05, 1.025)] == ["5 %", "2.5 %"]
    assert numerals.criterion(0.95, ACCURACY, ENGLISH) == "95 %"
    points = ACCURACY.model_copy(update={"scale": CompareScale.DIFFERENCE, "criterion": -2.0})
    assert [numerals.criterion(limit, points, ENGLISH) for limit in (-1.0, -2.0)] == ["1 point", "2 points"]
    assert numerals.criterion(-2.0, points, Texts(Language.CHINESE)) == "2 个百分点"


def test_a_probability_is_never_written_as_certain() -> None:
    shares = (0.0, 0.0004, 0.0005, 0.288, 0.9994, 0.9996, 1.0)
    assert [numerals.probability(share) for share in shares] == [
        "< 0.1 %",
        "< 0.1 %",
        "0.1 %",
        "28.8 %",
        "99.9 %",
        "> 99.9 %",
        "> 99.9 %",
    ]
