from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import MEDIUM_512, SMALL
from oelm.base.errors import FreezeError
from oelm.config.method import (
    AllButLast,
    AllLayers,
    Always,
    EveryNth,
    FreezingPlan,
    From,
    LayerChoice,
    Moment,
    OnlyLayers,
    TopDownThaw,
    Until,
    When,
)
from oelm.config.methods import METHODS, parse_method
from oelm.method import freezing
from oelm.method.freezing import chosen_layers, describe, frozen_names, is_frozen
from oelm.method.weights import Role
from oelm.model.ledger import weight_table

LAYERS = 6


def frozen_steps(when: When, total: int, layer: int = 0) -> list[int]:
    return [s for s in range(total) if is_frozen(when, step=s, total_steps=total, layer=layer, layers=LAYERS)]


def frozen(method: str, step: int = 0, total: int = 100) -> frozenset[str]:
    parsed = parse_method(method)
    return frozen_names(parsed.plan, weight_table(SMALL, parsed), step, total)


def test_always() -> None:
    assert frozen_steps(Always(), 5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("end", "total", "last_frozen"),
    [(1, 100, 0), (30, 100, 29), (0.3, 100, 29), (0.25, 10, 1), (100, 100, 99), (1000, 100, 99)],
)
def test_until_thaws_at_its_step(end: Moment, total: int, last_frozen: int) -> None:
    assert frozen_steps(Until(end=end), total) == list(range(last_frozen + 1))


@pytest.mark.parametrize(("start", "total", "first"), [(1, 100, 1), (30, 100, 30), (0.3, 100, 30), (0.001, 10, 1)])
def test_from_freezes_at_its_step_and_for_good(start: Moment, total: int, first: int) -> None:
    assert frozen_steps(From(start=start), total) == list(range(first, total))


@pytest.mark.parametrize(("start", "total"), [(100, 100), (1000, 100), (0.99, 20), (1, 1)])
def test_a_plan_that_would_never_begin_is_refused(start: Moment, total: int) -> None:
    with pytest.raises(FreezeError, match=r"nothing would be frozen.*Fix: start earlier"):
        frozen_steps(From(start=start), total)


def test_a_share_of_a_short_run_is_at_least_one_step() -> None:
    """A plan that freezes in no step at all would be a silent baseline."""
    assert frozen_steps(Until(end=0.01), 10) == [0]


@pytest.mark.parametrize("n", [2, 3, 7])
def test_every_nth_trains_in_every_nth_step_only(n: int) -> None:
    trained = sorted(set(range(22)) - set(frozen_steps(EveryNth(n=n), 22)))
    assert trained == list(range(n - 1, 22, n))


def test_layers_thaw_from_the_top_evenly() -> None:
    thaw_at = [len(frozen_steps(TopDownThaw(start=20, end=70), 100, layer)) for layer in range(LAYERS)]
    assert thaw_at == [70, 60, 50, 40, 30, 20]
    by_share = [len(frozen_steps(TopDownThaw(start=0.2, end=0.7), 100, layer)) for layer in range(LAYERS)]
    assert by_share == thaw_at
    assert all(below > above for below, above in pairwise(thaw_at))


def test_a_single_layer_thaws_at_the_start() -> None:
    steps = [is_frozen(TopDownThaw(start=2, end=9), step=s, total_steps=10, layer=0, layers=1) for s in range(10)]
    assert steps == [True] * 2 + [False] * 8


whens = st.one_of(
    st.just(Always()),
    st.builds(Until, end=st.integers(1, 50) | st.floats(0.05, 0.95)),
    st.builds(EveryNth, n=st.integers(2, 9)),
    st.builds(From, start=st.integers(1, 49) | st.floats(0.05, 0.95)),
    st.builds(lambda start, more: TopDownThaw(start=start, end=start + more), st.integers(1, 20), st.integers(0, 30)),
)


@given(whens, st.permutations(range(50)))
def test_the_calendar_is_a_function_of_the_step(when: When, order: list[int]) -> None:
    """A resumed run asks for the steps in another order and must hear the same."""
    plan, table = FreezingPlan(when=when), weight_table(SMALL, METHODS["oelm"])
    straight = [frozen_names(plan, table, step, 50) for step in range(50)]
    assert {step: frozen_names(plan, table, step, 50) for step in order} == dict(enumerate(straight))
    assert bool(straight[0]) is not isinstance(when, From), "every calendar starts frozen but one"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (AllLayers(), {0, 1, 2, 3, 4, 5}),
        (OnlyLayers(layers=(0,)), {0}),
        (OnlyLayers(layers=(5, 2, 2)), {2, 5}),
        (AllButLast(count=1), {0, 1, 2, 3, 4}),
        (AllButLast(count=5), {0}),
        (AllButLast(count=6), set()),
        (AllButLast(count=9), set()),
    ],
)
def test_which_layers(choice: LayerChoice, expected: set[int]) -> None:
    assert chosen_layers(choice, LAYERS) == expected


def test_a_layer_that_does_not_exist_is_named() -> None:
    with pytest.raises(FreezeError, match=r"no layer 6.*Fix:.*0 to 5"):
        chosen_layers(OnlyLayers(layers=(2, 6)), LAYERS)


def test_which_matrices() -> None:
    q = {f"layers.{layer}.attention.q.weight" for layer in range(3)}
    k = {f"layers.{layer}.attention.k.weight" for layer in range(3)}
    ffn = {
        f"layers.{layer}.ffn.{part}"
        for layer in range(3)
        for part in ("up.weight", "up.bias", "down.weight", "down.bias")
    }
    share = {
        f"layers.{layer}.ffn_share.{part}" for layer in range(3) for part in ("up.weight", "up.bias", "down.weight")
    }
    assert frozen("baseline") == set()
    assert frozen("oelm") == q | k
    assert frozen("oelm+freeze=q") == q
    assert frozen("oelm+freeze=k") == k
    assert frozen("baseline+freeze=k") == k
    assert frozen("oelm-ffn") == q | k | ffn
    assert frozen("oelm+freeze=0.25") == q | k | share
    assert frozen("oelm-core") == q, "K takes Q's matrix"
    assert frozen("oelm-frame+freeze=0.25") == share, "a frame stores nothing to freeze"
    assert frozen("oelm+all-but-last=2") == {"layers.0.attention.q.weight", "layers.0.attention.k.weight"}
    assert frozen("oelm+layers=2+freeze=q") == {"layers.2.attention.q.weight"}


def test_which_and_when_together() -> None:
    assert frozen("oelm+layers=1+until=5", step=4) == {"layers.1.attention.q.weight", "layers.1.attention.k.weight"}
    assert frozen("oelm+layers=1+until=5", step=5) == set()
    by_step = {step: {name.split(".")[1] for name in frozen("oelm+thaw=10..30", step)} for step in (9, 10, 20, 30)}
    assert by_step == {9: {"0", "1", "2"}, 10: {"0", "1"}, 20: {"0"}, 30: set()}


@pytest.mark.parametrize(
    "method", ["oelm+all-but-last=3", "oelm+all-but-last=99", "oelm-frame+freeze=0.25+all-but-last=3"]
)
def test_a_plan_that_matches_nothing_is_an_error(method: str) -> None:
    with pytest.raises(FreezeError, match=r"matches no weight.*Fix:"):
        frozen(method)


def test_a_share_too_small_for_one_hidden_unit_is_an_error() -> None:
    plan = FreezingPlan(query=False, key=False, ffn_share=0.001)
    method = METHODS["baseline"].model_copy(update={"plan": plan})
    with pytest.raises(FreezeError, match="matches no weight"):
        frozen_names(plan, weight_table(SMALL, method), 0, 100)


@pytest.mark.parametrize(("ratio", "achieved"), [("0.075", 1 / 6), ("0.25", 0.25), ("0.5", 0.5)])
def test_freeze_ratios_are_reached_to_the_weight(ratio: str, achieved: float) -> None:
    method = parse_method(f"oelm+freeze={ratio}")
    table = weight_table(MEDIUM_512, method)
    names = frozen_names(method.plan, table, 0, 100)
    matrices = [weight for weight in table if weight.name in names and not weight.name.endswith("bias")]
    assert sum(weight.count for weight in matrices) / (12 * 6 * 512**2) == achieved
    up, down = (
        {w.count for w in matrices if w.role is Role.FFN and w.name.endswith(end)}
        for end in ("up.weight", "down.weight")
    )
    assert up == down, "the same hidden units in both FFN matrices"


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("baseline", "nothing frozen"),
        ("oelm", "Q and K frozen, always"),
        ("oelm+freeze=0.25+layers=0,1", "Q and K and 0.125 of the FFN of layers 0, 1 frozen, always"),
        ("oelm+freeze=k+until=0.1", "K frozen, until 0.1 of the steps"),
        ("oelm+all-but-last=2+thaw=10..0.5", "thawing top-down from step 10 to 0.5 of the steps"),
        ("oelm+every=4", "trained every 4 steps only"),
        ("oelm+from=0.1", "Q and K frozen, from 0.1 of the steps on, trained before"),
    ],
)
def test_plans_in_words(method: str, words: str) -> None:
    assert words in describe(parse_method(method).plan)


MOMENTS = st.integers(1, 40) | st.floats(0.01, 0.99)
CALENDARS = (
    st.just(Always())
    | st.builds(Until, end=MOMENTS)
    | st.builds(From, start=MOMENTS)
    | st.builds(EveryNth, n=st.integers(2, 9))
    | st.tuples(MOMENTS, MOMENTS)
    .filter(lambda pair: type(pair[0]) is type(pair[1]) and pair[0] < pair[1])
    .map(lambda pair: TopDownThaw(start=pair[0], end=pair[1]))
)


@given(CALENDARS, st.integers(1, 50), st.integers(0, LAYERS - 1))
def test_frozen_steps_are_counted_as_they_come(when: When, total: int, layer: int) -> None:
    """The number in closed form is that of asking for every step; a plan that never begins is refused by both."""
    try:
        one_by_one = len(frozen_steps(when, total, layer))
    except FreezeError:
        with pytest.raises(FreezeError):
            freezing.frozen_steps(when, total_steps=total, layer=layer, layers=LAYERS)
    else:
        assert freezing.frozen_steps(when, total_steps=total, layer=layer, layers=LAYERS) == one_by_one
