import pytest

from builders import MEDIUM_512, SMALL, VARIETY
from oelm.config.methods import METHODS, parse_method
from oelm.config.model import GPTConfig
from oelm.config.record import QUERY_KEY_ROLES, WeightCounts
from oelm.method.cost import always_frozen, backward_flops, forward_flops, frozen_share, weight_counts
from oelm.method.weights import QUERY_KEY_SIDE, Product, Role
from oelm.model.ledger import count_flops, count_weights, products, trained_query_key_share, weight_table


@pytest.mark.parametrize("method", VARIETY)
def test_kinds_and_roles_add_up(method: str) -> None:
    counts = count_weights(SMALL, parse_method(method), 100)
    for kind in ("trained", "frozen", "absent"):
        assert sum(getattr(role, kind) for role in counts.roles) == getattr(counts, kind)
    table = weight_table(SMALL, parse_method(method))
    assert counts.stored == sum(weight.count for weight in table if weight.stored)
    assert counts.absent == sum(weight.cut if weight.stored else weight.count for weight in table)
    matrices = [role for role in counts.roles if role.role in ("query", "key", "query and key")]
    assert sum(role.trained + role.frozen + role.absent for role in matrices) == 2 * 3 * 24**2, "as the baseline has"
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


PLOT = GPTConfig(layers=4, width=128, heads=8, ffn_width=512, context=256, vocabulary=2048)
MATRIX = 4 * 128**2
SCALARS = 4 * 8


@pytest.mark.parametrize(
    ("method", "trained"),
    [
        ("baseline", 2 * MATRIX),
        ("baseline+shift+gain", 2 * MATRIX + 2 * SCALARS),
        ("baseline+shift+gain+thin=8", MATRIX + 2 * SCALARS),
        ("baseline+bias+norm", 2 * MATRIX + 2 * 4 * 128 + SCALARS),
        ("baseline+tied", MATRIX),
        ("oelm", 0),
        ("oelm-ffn", 0),
        ("blind", 0),
        ("oelm-frame", 2 * SCALARS),
        ("oelm-frame+core", 4 * 128 * 16 + 2 * SCALARS),
        ("oelm-frame+core+strided", 4 * 128 * 16 + 2 * SCALARS),
        ("oelm-frame+core+thin=8", 4 * 8 * 8 * 8 + 2 * SCALARS),
        ("oelm-core", 4 * 128 * 16 + 2 * SCALARS),
        ("oelm-core+one-draw", 4 * 128 * 16 + 2 * SCALARS),
        ("oelm-core+thin=4", 4 * 8 * 4 * 4 + 2 * SCALARS),
        ("oelm-lowrank", 4 * 4 * 8 * 128 + 2 * SCALARS),
        ("oelm-lowrank+thin=8", 4 * 2 * 8 * (128 + 64) + 2 * SCALARS),
        ("oelm-core+rank=2+bias", 4 * 128 * 16 + 4 * 4 * 2 * 128 + 2 * 4 * 128 + 2 * SCALARS),
        ("oelm-q", MATRIX),
        ("oelm+freeze=q", MATRIX),
        ("oelm+all-but-last=1", 2 * 128**2),
        ("oelm+until=50", 2 * MATRIX),
        ("oelm+until=100", 0),
        ("oelm+freeze=0.5+until=50", 2 * MATRIX),
        ("oelm+every=4", 2 * MATRIX),
        ("oelm+from=0.1", 2 * MATRIX),
        ("oelm-core+from=0.1", MATRIX + 4 * 128 * 16 + 2 * SCALARS),
    ],
)
def test_the_trained_share_of_the_query_key_side(method: str, trained: int) -> None:
    """Whatever some step trains counts, as a share of the baseline's 2 L D^2; 4 layers, width 128, 8 heads."""
    assert trained_query_key_share(PLOT, parse_method(method), 100) == trained / (2 * MATRIX)


def test_an_old_record_of_a_changing_plan_does_not_know_its_share() -> None:
    assert {role.value for role in QUERY_KEY_SIDE} == QUERY_KEY_ROLES
    for method, known in (("oelm-core", True), ("oelm+until=50", False)):
        counts = count_weights(PLOT, parse_method(method), 100)
        old = WeightCounts.model_validate(counts.model_dump(exclude={"later_query_key"}))
        assert (old.trained_query_key_share is not None) is known
        assert old.trained_query_key_share in (None, counts.trained_query_key_share)


def test_what_was_trained_first_is_never_called_frozen() -> None:
    counts = count_weights(SMALL, parse_method("oelm+from=0.1"), 100)
    assert (counts.frozen, counts.later) == (0, 0)
    assert counts.trained == count_weights(SMALL, METHODS["baseline"], 100).trained


def test_shares_of_steps() -> None:
    def shares(method: str, total: int) -> dict[str, float]:
        parsed = parse_method(method)
        share = frozen_share(parsed.plan, weight_table(SMALL, parsed), total)
        return {name: value for name, value in share.items() if name.endswith("q.weight")}

    q = [f"layers.{layer}.attention.q.weight" for layer in range(3)]
    assert shares("baseline", 8) == {}
    assert shares("oelm", 8) == dict.fromkeys(q, 1.0)
    assert shares("oelm+until=2", 8) == dict.fromkeys(q, 0.25)
    assert shares("oelm+from=2", 8) == dict.fromkeys(q, 0.75)
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
    assert saved("oelm+from=0.25") == pytest.approx(0.75 * saved("oelm"))
    assert saved("blind") > saved("oelm-frame"), "no scores and no mixing either"
    assert saved("baseline") < saved("baseline+thin=32") < saved("baseline+thin=16")
