import json

import pytest

from oelm.config.record import CurvePoint, Record
from oelm.report.arms import group_into_arms
from oelm.report.curves import LONGEST_CURVE, MOST_POINTS, curve_data, points_per_curve, safe_json, thinned
from report.records import make_config, make_record


def curve(points: int, *, loss: float = 3.0) -> tuple[CurvePoint, ...]:
    return tuple(
        CurvePoint(step=10 * (i + 1), tokens=1000 * (i + 1), seconds=i + 0.123456, loss=loss - i / 1e4, train_loss=None)
        for i in range(points)
    )


def with_curve(method: str, seed: int, points: int) -> Record:
    return make_record(make_config(method, seed), 2.5).model_copy(update={"curve": curve(points)})


def test_short_curves_are_kept_whole_and_long_ones_keep_their_ends() -> None:
    assert thinned(curve(30), 50) == curve(30)
    thin = thinned(curve(1000), 50)
    assert len(thin) == 50
    assert [thin[0], thin[-1]] == [curve(1000)[0], curve(1000)[-1]]
    steps = [point.step for point in thin]
    assert steps == sorted(set(steps))


def test_all_curves_together_stay_small() -> None:
    assert points_per_curve(1) == LONGEST_CURVE
    assert points_per_curve(200) * 200 <= MOST_POINTS
    assert points_per_curve(0) == LONGEST_CURVE


def test_steps_that_runs_share_stand_once() -> None:
    arms = group_into_arms([with_curve(method, seed, 5) for method in ("baseline", "oelm") for seed in range(3)])
    data = curve_data(arms, {"oelm": "baseline"}, {"oelm": 1, "baseline": 0}, 1.05)
    assert data["steps"] == [(10, 20, 30, 40, 50)]
    assert len(data["runs"]) == 6
    assert data["arms"][1] == {"label": "oelm", "colour": 1, "control": 0, "bytes_per_token": 3.2}
    assert data["runs"][0]["train"] == [None] * 5


def test_a_loss_that_is_no_number_is_a_gap() -> None:
    wild = with_curve("oelm", 0, 2)
    wild = wild.model_copy(update={"curve": (wild.curve[0].model_copy(update={"loss": float("nan")}), wild.curve[1])})
    data = curve_data(group_into_arms([wild]), {}, {"oelm": 1}, None)
    assert data["runs"][0]["loss"][0] is None


@pytest.mark.parametrize("name", ["</script><script>alert(1)</script>", "<!--", "]]>", "a\u2028b", "&lt;", '"\\'])
def test_no_name_ends_the_script_element(name: str) -> None:
    text = safe_json({"label": name})
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == {"label": name}
