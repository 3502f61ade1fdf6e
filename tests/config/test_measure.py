import pytest
from pydantic import ValidationError

from oelm.config.measure import (
    ACCURACY,
    BITS_PER_BYTE,
    BY_TASK,
    LOSS,
    PERPLEXITY,
    Better,
    Bilingual,
    CompareScale,
    Measure,
)

NAME = Bilingual(english="toy", chinese="玩具")


def test_direction_decides_what_is_best() -> None:
    assert LOSS.best({1e-4: 2.5, 1e-3: 2.4, 1e-2: 2.4}) == 1e-3
    assert ACCURACY.best({1e-4: 0.8, 1e-3: 0.9}) == 1e-3
    assert (LOSS.sign, ACCURACY.sign) == (1, -1)


@pytest.mark.parametrize(
    ("measure", "value", "text"),
    [
        (PERPLEXITY, 4.267, "4.27"),
        (PERPLEXITY, 123.45, "123.5"),
        (PERPLEXITY, 1234.5, "1234"),
        (PERPLEXITY, float("inf"), "inf"),
        (ACCURACY, 0.81084, "81.08 %"),
        (BITS_PER_BYTE, 1.17636, "1.176"),
        (LOSS, 2.49904, "2.4990"),
    ],
)
def test_values_are_written_with_their_units(measure: Measure, value: float, text: str) -> None:
    assert measure.written(value) == text
    assert measure.bare(value) == text.removesuffix(" %")


@pytest.mark.parametrize(
    ("better", "scale", "criterion"),
    [
        (Better.LOWER, CompareScale.RATIO, 0.95),
        (Better.LOWER, CompareScale.RATIO, 1.0),
        (Better.HIGHER, CompareScale.SHARE, 1.05),
        (Better.HIGHER, CompareScale.SHARE, -0.5),
        (Better.HIGHER, CompareScale.DIFFERENCE, 1.0),
        (Better.LOWER, None, 1.05),
        (Better.LOWER, CompareScale.RATIO, None),
    ],
)
def test_a_criterion_lies_on_the_worse_side(
    better: Better, scale: CompareScale | None, criterion: float | None
) -> None:
    per = "example" if scale is CompareScale.SHARE else "run"
    with pytest.raises(ValidationError):
        Measure(name="toy", title=NAME, better=better, scale=scale, criterion=criterion, per=per)


def test_a_criterion_of_points_may_be_negative() -> None:
    assert (
        Measure(name="toy", title=NAME, better=Better.HIGHER, scale=CompareScale.DIFFERENCE, criterion=-2.0).sign == -1
    )


def test_each_task_is_judged_by_its_first_measure() -> None:
    assert {task: measures[0].name for task, measures in BY_TASK.items()} == {
        "language-modelling": "perplexity",
        "classification": "accuracy",
        "regression": "pearson",
        "seq2seq": "rouge_l",
        "probing": "probe_accuracy",
    }
    assert all(measures[0].scale is not None for measures in BY_TASK.values())
