import pytest

from builders import MEDIUM_512, SMALL, VARIETY
from oelm.config.methods import METHODS, parse_method
from oelm.method.cost import always_frozen, backward_flops, forward_flops, frozen_share, weight_counts
from oelm.method.weights import Product, Role
from oelm.model.ledger import count_flops, count_weights, products, weight_table


@pytest.mark.parametrize("method", VARIETY)
def test_kinds_and_roles_add_up(method: str) -> None:
    counts = count_weights(SMALL, parse_method(method), 100)
    for kind in ("trained", "frozen", "absent"):
        assert sum(getattr(role, kind) for role in counts.roles) == getattr(counts, kind)
    table = weight_table(SMALL, parse_method(method))
    assert counts.stored == sum(weight.count for weight in table if weight.stored)
    assert counts.absent == sum(weight.count for weight in table if not weight.stored)
    assert len({role.role for role in counts.roles}) == len(counts.roles)


@pytest.mark.parametrize(
    ("method", "later_layers"),
    [("oelm", 0), ("oelm+until=50", 3), ("oelm+every=4", 3), ("oelm+thaw=50..150", 1), ("oelm+thaw=50..140", 2)],
)
def test_what_is_trained_later_is_told_apart(method: str, later_layers: int) -> None:
    """`thaw=50..150` of 100 steps: the top layer thaws at 50, the next at 100, which is one step too late."""
    counts = count_weights(SMALL, parse_method(method), 100)
    assert counts.frozen == 3 * 2 * 24**2
    assert counts.later == later_layers * 2 * 24**2


def test_the_end_of_the_run_decides_what_is_always_frozen() -> None:
    method = parse_method("oelm+until=100")
    table = weight_table(SMALL, method)
    assert len(always_frozen(method.plan, table, 100)) == 6
    assert always_frozen(method.plan, table, 101) == frozenset()
    assert weight_counts(method.plan, table, 100).later == 0
    assert weight_counts(method.plan, table, 101).later == 6 * 24**2


def test_shares_of_steps() -> None:
    def shares(method: str, total: int) -> dict[str, float]:
        parsed = parse_method(method)
        share = frozen_share(parsed.plan, weight_table(SMALL, parsed), total)
        return {name: value for name, value in share.items() if name.endswith("q.weight")}

    q = [f"layers.{layer}.attention.q.weight" for layer in range(3)]
    assert shares("baseline", 8) == {}
    assert shares("oelm", 8) == dict.fromkeys(q, 1.0)
    assert shares("oelm+until=2", 8) == dict.fromkeys(q, 0.25)
    assert shares("oelm+every=4", 8) == dict.fromkeys(q, 0.75)
    assert shares("oelm+thaw=2..6", 8) == dict(zip(q, (0.75, 0.5, 0.25), strict=True))


def test_a_frozen_weight_saves_its_own_gradient_only() -> None:
    rows = (
        Product(role=Role.QUERY, macs=10, weight="q"),
        Product(role=Role.VALUE, macs=100, weight="v"),
        Product(role=None, macs=1000, weight=None),
    )
    assert forward_flops(rows) == 2 * 1110
    assert backward_flops(rows, {}) == 4 * 1110
    assert backward_flops(rows, {"q": 1.0}) == 4 * 1110 - 20
    assert backward_flops(rows, {"q": 0.5, "absent": 1.0}) == 4 * 1110 - 10


def test_freezing_saves_2_3_percent_of_medium_512_and_5_6_percent_of_its_blocks() -> None:
    flops = count_flops(MEDIUM_512, METHODS["oelm"], total_steps=100, tokens=7)
    assert flops.saved_share == pytest.approx(0.023, abs=0.0005)
    saved = flops.saved_share * flops.baseline_per_token
    blocks = [row for row in products(MEDIUM_512, METHODS["baseline"]) if row.weight and "attention" in row.weight]
    blocks += [row for row in products(MEDIUM_512, METHODS["baseline"]) if row.role is Role.FFN]
    assert saved / (3 * forward_flops(tuple(blocks))) == pytest.approx(1 / 18)  # 5.6 %
    assert flops.run == 7 * (flops.forward_per_token + flops.backward_per_token)


def test_the_baseline_saves_nothing_and_thawing_saves_less() -> None:
    def saved(method: str) -> float:
        return count_flops(MEDIUM_512, parse_method(method), total_steps=100, tokens=1).saved_share

    assert saved("baseline") == 0
    assert saved("oelm+until=0.5") == pytest.approx(saved("oelm") / 2)
    assert saved("oelm-frame") == pytest.approx(3 * saved("oelm")), "a frame saves forward and both gradients"
    assert saved("oelm-core") < saved("oelm-frame")
    assert saved("baseline+rank=8") < 0
