import torch

from oelm.experiments.subjects import build_model
from oelm.method.weights import Role, Weight
from oelm.model.ledger import weight_table
from oelm.train.optimiser import lr_share, make_optimiser, read_moments, write_moments
from train.toys import TINY, engine_for, set_gradients, tiny_config

EMBEDDINGS = ("token embedding", "position embedding")


def test_weight_decay_is_on_matrices_only() -> None:
    config = tiny_config("oelm-core")
    model = build_model(config)
    names = {id(p): name for name, p in model.named_parameters()}
    optimiser = make_optimiser(
        dict(model.named_parameters()), weight_table(config.model, config.method), config.optim, 1
    )
    decay = {names[id(p)]: group["weight_decay"] for group in optimiser.param_groups for p in group["params"]}
    assert decay.keys() == set(names.values())
    for name, parameter in model.named_parameters():
        assert decay[name] == (config.optim.weight_decay if parameter.ndim >= 2 else 0.0), name
    vectors = {"layers.0.attention.shift_H", "layers.0.attention_norm.weight", "layers.1.ffn.up.bias"}
    assert vectors < {name for name, value in decay.items() if value == 0}


def test_weight_decay_can_be_on_all_weights() -> None:
    """With gradients of zero AdamW does nothing but decay: w <- (1 - lr decay) w."""
    for decay, shrinks in (("matrices", False), ("all", True)):
        engine = engine_for(tiny_config("baseline", weight_decay=0.5, decay=decay))
        engine.ensure_frozen(frozenset())
        before = {name: p.detach().clone() for name, p in engine.model.named_parameters()}
        set_gradients(engine, 0.0)
        engine.update(lr=1e-2)
        for name, parameter in engine.model.named_parameters():
            factor = 1 - 1e-2 * 0.5 if shrinks or parameter.ndim >= 2 else 1.0
            assert torch.allclose(parameter, factor * before[name], rtol=1e-6, atol=0), (decay, name)


def test_lower_layers_train_more_gently() -> None:
    def share(role: Role, layer: int | None) -> float:
        return lr_share(Weight(name="", role=role, count=1, layer=layer), 4, 0.5)

    assert [share(Role.VALUE, layer) for layer in range(4)] == [0.125, 0.25, 0.5, 1.0]
    assert share(Role.TOKEN_EMBEDDING, None) == 0.0625
    assert share(Role.NORM, None) == 1.0


def test_the_layers_share_reaches_the_update() -> None:
    """Adam's first update is lr x sign(gradient), so its size shows the learning rate of each layer."""
    engine = engine_for(tiny_config("baseline+layer-lr=0.1", weight_decay=0.0))
    engine.ensure_frozen(frozenset())
    before = {name: p.detach().clone() for name, p in engine.model.named_parameters()}
    set_gradients(engine, 1.0)
    engine.update(lr=1e-2)
    moved = {name: (p - before[name]).abs().max().item() for name, p in engine.model.named_parameters()}
    assert TINY["layers"] == 2
    for name, share in (
        ("layers.1.ffn.up.weight", 1),
        ("layers.0.ffn.up.weight", 0.1),
        ("token_embedding.weight", 0.01),
    ):
        assert abs(moved[name] / (1e-2 * share) - 1) < 1e-2, name


def test_the_query_key_side_has_its_own_rate() -> None:
    def share(role: Role, layer: int | None = 1) -> float:
        return lr_share(Weight(name="", role=role, count=1, layer=layer), 2, 0.5, 0.3)

    sides = (Role.QUERY, Role.KEY, Role.QUERY_KEY, Role.CORE, Role.LOW_RANK, Role.SHIFT, Role.GAIN, Role.BIAS)
    assert [share(role) for role in sides] == [0.3] * len(sides)
    assert [share(role, 0) for role in sides] == [0.15] * len(sides)
    assert [share(role) for role in Role if role not in sides and role.value not in EMBEDDINGS] == [1.0] * 5


def test_the_query_key_rate_reaches_the_update() -> None:
    engine = engine_for(tiny_config("oelm-core+bias+rank=2+qk-lr=0.3", weight_decay=0.0))
    engine.ensure_frozen(frozenset())
    before = {name: p.detach().clone() for name, p in engine.model.named_parameters()}
    set_gradients(engine, 1.0)
    engine.update(lr=1e-2)
    for name, parameter in engine.model.named_parameters():
        share = 0.3 if "attention." in name and ".v." not in name and ".o." not in name else 1
        assert abs((parameter - before[name]).abs().max().item() / (1e-2 * share) - 1) < 1e-2, name


def test_biases_do_not_decay() -> None:
    config = tiny_config("oelm+bias+norm")
    model = build_model(config)
    names = {id(p): name for name, p in model.named_parameters()}
    groups = make_optimiser(dict(model.named_parameters()), weight_table(config.model, config.method), config.optim, 1)
    undecayed = {names[id(p)] for g in groups.param_groups if g["weight_decay"] == 0 for p in g["params"]}
    assert {"layers.0.attention.q_bias_E", "layers.0.attention.k_bias_E", "layers.0.attention.gain_H"} < undecayed


def test_moments_go_out_and_come_back_by_name() -> None:
    config = tiny_config("baseline")
    model = build_model(config)
    parameters = dict(model.named_parameters())
    table = weight_table(config.model, config.method)
    first, second = (make_optimiser(parameters, table, config.optim, 1) for _ in range(2))
    assert read_moments(first, parameters) == {}
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    first.step()
    write_moments(second, parameters, read_moments(first, parameters))
    for name, state in read_moments(second, parameters).items():
        assert state["step"].item() == 1
        assert torch.equal(state["exp_avg"], first.state[parameters[name]]["exp_avg"])
