from typing import Any

import pytest
from pydantic import ValidationError

from oelm.config.method import EveryNth, FreezingPlan, KeySource, Method, OnlyLayers, Projection, TopDownThaw, Until

FRAME, NORMAL = Projection.COORDINATE_FRAME, Projection.NORMAL


def method(**parts: Any) -> Method:
    return Method(**{"name": "x", "query": NORMAL, "key": NORMAL, **parts})


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"key_source": KeySource.TIED, "key": Projection.XAVIER}, "a tied key has the query's projection"),
        ({"key_source": KeySource.ROLLED, "key": FRAME}, "a rolled key has the query's projection"),
        ({"key_source": KeySource.TIED, "plan": FreezingPlan(key=False)}, "freeze both or neither"),
        ({"key_source": KeySource.ROLLED, "plan": FreezingPlan(query=False)}, "freeze both or neither"),
        ({"query": FRAME, "key": FRAME, "plan": FreezingPlan()}, "matches nothing"),
        ({"query": FRAME, "plan": FreezingPlan(key=False)}, "matches nothing"),
        ({"key": FRAME, "plan": FreezingPlan(query=False)}, "matches nothing"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        method(**parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"key_source": KeySource.TIED, "plan": FreezingPlan()},
        {"query": FRAME, "plan": FreezingPlan()},
        {"query": FRAME, "key": FRAME, "plan": FreezingPlan(ffn_share=0.1)},
        {"plan": FreezingPlan(query=False, key=False, ffn_share=0.1)},
    ],
)
def test_the_neighbours_of_the_refused_are_accepted(parts: dict[str, Any]) -> None:
    assert method(**parts)


@pytest.mark.parametrize("moment", [0, -1, 0.0, 1.5, -0.1, float("nan"), float("inf")])
def test_a_moment_is_a_step_or_a_share(moment: float) -> None:
    with pytest.raises(ValidationError):
        Until(end=moment)


def test_moments_keep_their_kind() -> None:
    assert Until(end=1).end == 1
    assert isinstance(Until(end=1).end, int)
    assert Until(end=0.5).end == 0.5
    assert Until.model_validate_json(Until(end=0.5).model_dump_json()).end == 0.5
    assert isinstance(Until.model_validate_json(Until(end=7).model_dump_json()).end, int)


@pytest.mark.parametrize(("start", "end"), [(0.8, 0.2), (50, 10)])
def test_a_thaw_that_would_run_bottom_up_is_refused(start: float, end: float) -> None:
    with pytest.raises(ValidationError, match="swap them"):
        TopDownThaw(start=start, end=end)
    assert TopDownThaw(start=end, end=start)
    assert TopDownThaw(start=start, end=start)
    assert TopDownThaw(start=50, end=0.5), "a step and a share are compared once the length is known"


def test_plans_that_say_nothing_are_refused() -> None:
    with pytest.raises(ValidationError, match="must name Q, K or a share of the FFN"):
        FreezingPlan(query=False, key=False)
    with pytest.raises(ValidationError):
        OnlyLayers(layers=())
    with pytest.raises(ValidationError):
        EveryNth(n=1)
    with pytest.raises(ValidationError):
        FreezingPlan(ffn_share=1.1)
