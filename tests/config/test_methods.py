import pytest

from oelm.base.errors import ConfigError
from oelm.config.method import (
    AllButLast,
    EveryNth,
    Extras,
    FreezingPlan,
    From,
    KeySource,
    OnlyLayers,
    Projection,
    Scale,
    TopDownThaw,
    Until,
)
from oelm.config.methods import (
    METHODS,
    MODIFIERS,
    PRETRAINED_METHODS,
    SUMMARIES,
    control_of,
    freeze_ratio,
    from_original,
    parse_method,
)

NAMES = [
    "baseline",
    "oelm",
    "oelm-random",
    "oelm-random-matched",
    "oelm-global",
    "orthogonal-trained",
    "global-trained",
    "frame-trained",
    "oelm-ffn",
    "oelm-q",
    "oelm-frame",
    "oelm-lowrank",
    "oelm-core",
    "blind",
]


COMPARATORS = ["lora", "bitfit", "frozen-embeddings", "top-layers"]


def test_the_named_methods() -> None:
    assert list(METHODS) == NAMES
    assert list(SUMMARIES) == [*NAMES, *PRETRAINED_METHODS]
    assert list(PRETRAINED_METHODS) == ["keep", "oelm-qr", "oelm-polar", "oelm-exact", *COMPARATORS]
    assert all(name == method.name == parse_method(name).name for name, method in PRETRAINED_METHODS.items())
    assert all(name == method.name == parse_method(name).name for name, method in METHODS.items())
    contents = [method.model_dump_json(exclude={"name"}) for method in METHODS.values()]
    assert len(set(contents)) == len(NAMES), "no two names mean the same"


def test_what_the_names_mean() -> None:
    headwise, normal, frame = Projection.HEADWISE_ORTHOGONAL, Projection.NORMAL, Projection.COORDINATE_FRAME
    oelm = METHODS["oelm"]
    assert (oelm.query, oelm.key, oelm.key_source, oelm.plan, oelm.extras) == (
        headwise,
        headwise,
        KeySource.OWN,
        FreezingPlan(),
        Extras(),
    )
    assert METHODS["baseline"].plan is None
    assert METHODS["baseline"].scale is Scale.AS_ORIGINAL
    assert METHODS["oelm-random"] == METHODS["baseline"].model_copy(update={"name": "oelm-random", "plan": oelm.plan})
    assert METHODS["oelm-random-matched"].scale is Scale.NORM_MATCHED
    assert METHODS["orthogonal-trained"] == oelm.model_copy(update={"name": "orthogonal-trained", "plan": None})
    assert METHODS["oelm-ffn"].plan == FreezingPlan(ffn_share=1.0)
    assert (METHODS["oelm-q"].query, METHODS["oelm-q"].key, METHODS["oelm-q"].plan) == (frame, normal, None)
    assert METHODS["oelm-frame"].key_source is KeySource.TIED
    assert METHODS["oelm-lowrank"].extras == Extras(shift=True, gain=True, rank=8)
    assert METHODS["oelm-core"].extras == Extras(shift=True, gain=True, core=True)


@pytest.mark.parametrize(
    ("text", "part", "value"),
    [
        ("oelm+shift", "extras", Extras(shift=True)),
        ("oelm+gain", "extras", Extras(gain=True)),
        ("oelm+core", "extras", Extras(core=True)),
        ("oelm+rank=4", "extras", Extras(rank=4)),
        ("oelm+layer-lr=0.9", "extras", Extras(layer_lr=0.9)),
        ("oelm+norm", "extras", Extras(norm=True, gain=True)),
        ("oelm+gain=2", "extras", Extras(gain=True, gain_start=2)),
        ("oelm+bias", "extras", Extras(bias=True)),
        ("oelm+qk-lr=0.3", "extras", Extras(query_key_lr=0.3)),
        ("oelm+thin=8", "thin", 8),
        ("oelm+one-draw", "one_draw", True),
        ("oelm-frame+strided", "strided", True),
        ("oelm+from=0.1", "plan", FreezingPlan(when=From(start=0.1))),
        ("oelm+from=100", "plan", FreezingPlan(when=From(start=100))),
        ("oelm+query=xavier", "query", Projection.XAVIER),
        ("oelm+key=normal", "key", Projection.NORMAL),
        ("oelm-q+query=global-orthogonal", "query", Projection.GLOBAL_ORTHOGONAL),
        ("oelm+tied", "key_source", KeySource.TIED),
        ("oelm+rolled", "key_source", KeySource.ROLLED),
        ("baseline+matched", "scale", Scale.NORM_MATCHED),
        ("oelm+freeze=q", "plan", FreezingPlan(key=False)),
        ("baseline+freeze=k", "plan", FreezingPlan(query=False)),
        ("baseline+freeze=qk", "plan", FreezingPlan()),
        ("oelm+freeze=0.25", "plan", FreezingPlan(ffn_share=0.125)),
        ("oelm+layers=0,2", "plan", FreezingPlan(layers=OnlyLayers(layers=(0, 2)))),
        ("oelm+all-but-last=2", "plan", FreezingPlan(layers=AllButLast(count=2))),
        ("oelm+until=1000", "plan", FreezingPlan(when=Until(end=1000))),
        ("oelm+until=0.1", "plan", FreezingPlan(when=Until(end=0.1))),
        ("oelm+thaw=0.2..0.8", "plan", FreezingPlan(when=TopDownThaw(start=0.2, end=0.8))),
        ("oelm+thaw=10..0.8", "plan", FreezingPlan(when=TopDownThaw(start=10, end=0.8))),
        ("oelm+every=4", "plan", FreezingPlan(when=EveryNth(n=4))),
    ],
)
def test_a_modifier_changes_its_part_and_nothing_else(text: str, part: str, value: object) -> None:
    method, base = parse_method(text), METHODS[text.split("+")[0]]
    assert getattr(method, part) == value
    assert method == base.model_copy(update={"name": text, part: value})


def test_the_querys_projection_is_a_tied_keys_too() -> None:
    method = parse_method("oelm-core+query=xavier")
    assert (method.query, method.key, method.key_source) == (Projection.XAVIER, Projection.XAVIER, KeySource.TIED)


def test_every_modifier_shows_how_to_write_it() -> None:
    """The usage's own example parses, and names the modifier it belongs to."""
    for key, (_, usage) in MODIFIERS.items():
        example = usage.split(":")[0].split(" ")[0].rstrip(",")
        assert example.removeprefix("+").split("=")[0] == key
        base = {"matched": "baseline", "strided": "oelm-frame", "equal": "oelm-exact", "top": "top-layers"}.get(
            key, "oelm"
        )
        assert parse_method(base + example).name == base + example


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("oelm-frame+shift", "oelm-frame"),
        ("oelm-frame+shift+gain+rank=8", "oelm-frame+rank=8"),
        ("oelm+freeze=qk", "oelm"),
        ("oelm+gain+norm", "oelm+norm"),
        ("oelm+gain=2+norm", "oelm+norm+gain=2"),
        ("oelm-core+gain=1", "oelm-core"),
        ("oelm-core+thin=4+gain=2", "oelm-core+gain=2+thin=4"),
        ("oelm+freeze=0.075", "oelm"),
        ("oelm-random-matched+matched", "oelm-random-matched"),
        (" baseline+shift+gain ", "baseline+shift+gain"),
        ("baseline+shift+shift", "baseline+shift"),
        ("oelm+query=headwise-orthogonal+key=xavier", "oelm+key=xavier"),
        ("baseline+tied+key=xavier+query=xavier", "baseline+query=xavier+key=xavier+tied"),
    ],
)
def test_a_modifier_that_changes_nothing_is_not_part_of_the_name(text: str, name: str) -> None:
    method = parse_method(text)
    assert method.name == name
    assert parse_method(name) == method


@pytest.mark.parametrize(
    ("text", "problem", "fix"),
    [
        ("olem", "unknown method 'olem'", "choose one of baseline, oelm,"),
        ("", "unknown method ''", "choose one of"),
        ("OELM", "unknown method", "choose one of"),
        ("oelm+shfit", "unknown modifier +shfit", "+shift"),
        ("oelm+", "unknown modifier +", "+shift"),
        ("oelm+shift=2", "+shift takes no value", "write +shift"),
        ("oelm+rank=many", "cannot read +rank=many", "+rank=8"),
        ("oelm+rank", "cannot read +rank", "+rank=8"),
        ("oelm+rank=-1", "greater than or equal to 0", "+rank=8"),
        ("oelm+layer-lr=2", "less than or equal to 1", "+layer-lr=0.9"),
        ("oelm+gain=0", "greater than 0", "+gain=2"),
        ("oelm+gain=much", "cannot read +gain=much", "+gain=2"),
        ("oelm+norm=2", "+norm takes no value", "write +norm"),
        ("oelm+bias=2", "+bias takes no value", "write +bias"),
        ("oelm+thin=0", "greater than or equal to 1", "+thin=8"),
        ("oelm+thin", "cannot read +thin", "+thin=8"),
        ("oelm+qk-lr=0", "greater than 0", "+qk-lr=0.3"),
        ("oelm+strided", "only a coordinate frame can be strided", "+strided"),
        ("oelm-frame+one-draw", "the same in every layer already", "+one-draw"),
        ("oelm-qr+one-draw", "only drawn matrices", "+one-draw"),
        ("oelm+from=0", "greater than or equal to 1", "+from=0.1"),
        ("baseline+from=0.1", "freezes nothing", "start from a frozen method"),
        ("blind+shift", "blind attention has no Q and K", "+shift"),
        ("blind+thin=2", "blind attention has no Q and K", "+thin"),
        ("blind+qk-lr=2", "blind attention has no Q and K", "+qk-lr"),
        ("blind+rolled", "blind attention has no Q and K", "+rolled"),
        ("blind+strided", "blind attention has no Q and K", "+strided"),
        ("blind+query=normal", "blind attention has no Q and K", "+query"),
        ("blind+freeze=qk", "matches nothing", "+freeze"),
        ("oelm+freeze=all", "cannot read +freeze=all", "+freeze=q, k, qk or a ratio"),
        ("oelm+freeze=0.1", "cannot be reached", "0.075"),
        ("oelm+freeze=0.9", "cannot be reached", "0.833"),
        ("oelm+freeze=nan", "cannot be reached", "0.075"),
        ("oelm+until=0", "greater than or equal to 1", "+until=1000"),
        ("oelm+until=1.5", "fractional part", "+until=1000"),
        ("oelm+until=inf", "finite", "+until=1000"),
        ("oelm+until=soon", "cannot read", "+until=1000"),
        ("oelm+thaw=0.2", "cannot read", "+thaw=0.2..0.8"),
        ("oelm+thaw=0.8..0.2", "swap them", "+thaw=0.2..0.8"),
        ("oelm+every=1", "greater than or equal to 2", "+every=4"),
        ("oelm+layers=a", "cannot read", "+layers=0,1"),
        ("oelm+layers=-1", "greater than or equal to 0", "+layers=0,1"),
        ("oelm+all-but-last=0", "greater than or equal to 1", "+all-but-last=1"),
        ("baseline+until=5", "freezes nothing", "start from a frozen method"),
        ("oelm-frame+every=2", "freezes nothing", "start from a frozen method"),
        ("oelm+query=xaver", "cannot read +query=xaver", "coordinate-frame"),
        ("oelm+key", "cannot read +key", "+key=normal"),
        ("oelm-core+key=normal", "a tied key has the query's projection", "+key"),
        ("oelm+query=xavier+tied", "has the query's projection", "+tied"),
        ("oelm+query=coordinate-frame+key=coordinate-frame", "matches nothing", "+key"),
        ("oelm-qr+query=xavier", "takes the pre-trained ones", "leave +query out"),
        ("oelm-q+tied", "has the query's projection", "+tied"),
        ("oelm-core+freeze=q", "freeze both or neither", "+freeze"),
        ("oelm-frame+freeze=qk", "matches nothing", "+freeze"),
    ],
)
def test_mistakes_are_explained_in_one_line(text: str, problem: str, fix: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_method(text)
    message = str(error.value)
    said, _, advised = message.partition("Fix:")
    assert problem in said
    assert fix in advised
    assert "\n" not in message


@pytest.mark.parametrize(
    ("model_type", "name"), [("baseline", "baseline"), ("oelm_v2", "oelm"), ("oelm_random", "oelm-random")]
)
def test_the_originals_names(model_type: str, name: str) -> None:
    assert from_original(model_type) == METHODS[name]


def test_the_originals_oelm_is_refused_with_both_readings() -> None:
    with pytest.raises(ConfigError, match="ambiguous") as error:
        from_original("oelm")
    assert "global-trained" in error.value.fix
    assert "oelm-global" in error.value.fix
    assert "oelm_v2" in error.value.fix


@pytest.mark.parametrize("model_type", ["oelm-global", "gpt", ""])
def test_other_model_types_are_unknown(model_type: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown model type.*Fix: choose one of baseline, oelm_v2, oelm_random"):
        from_original(model_type)


def test_freeze_ratios_as_shares_of_the_ffn() -> None:
    assert freeze_ratio(0.075) == FreezingPlan()
    assert freeze_ratio(0.25).ffn_share == 0.125
    assert freeze_ratio(0.5).ffn_share == 0.5
    assert freeze_ratio(0.833).ffn_share == pytest.approx(1, abs=1e-3)
    assert freeze_ratio(5 / 6).ffn_share == 1.0
    assert freeze_ratio(0.1667).ffn_share == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("method", "control"),
    [
        ("oelm", "baseline"),
        ("baseline", "baseline"),
        ("oelm-frame", "baseline+shift+gain"),
        ("oelm-lowrank", "baseline+shift+gain"),
        ("oelm-core", "baseline+shift+gain"),
        ("oelm-q+gain", "baseline+gain"),
        ("oelm+layer-lr=0.9+until=5", "baseline+layer-lr=0.9"),
        ("blind", "baseline"),
        ("oelm-frame+core+thin=4+strided", "baseline+shift+gain+thin=4"),
        ("oelm-core+one-draw+bias+norm", "baseline+shift+norm+bias"),
        ("oelm-core+gain=2+norm+qk-lr=0.3", "baseline+shift+norm+gain=2+qk-lr=0.3"),
        ("oelm-core+gain=4+from=0.1", "baseline+shift+gain=4"),
    ],
)
def test_the_fair_control_has_the_same_extras(method: str, control: str) -> None:
    assert control_of(parse_method(method)) == control
    assert parse_method(control).name == control
