import math

import pytest

from oelm.report.numerals import (
    written_count,
    written_margin,
    written_milliseconds,
    written_percent,
    written_perplexity,
    written_ratio,
)


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
    assert written_count(number) == text


def test_numbers_keep_what_means_something() -> None:
    assert [written_perplexity(value) for value in (4.267, 123.45, 1234.5, math.inf)] == [
        "4.27",
        "123.5",
        "1234",
        "inf",
    ]
    assert [written_percent(share) for share in (0.0561, -0.0001, -0.02)] == ["5.6 %", "0.0 %", "-2.0 %"]
    assert [written_margin(margin) for margin in (1.05, 1.025)] == ["5 %", "2.5 %"]
    assert [written_milliseconds(seconds) for seconds in (0.0061, 0.0301, 0.184)] == ["6.10", "30.1", "184"]
    assert written_ratio(1.0499) == "1.050"
