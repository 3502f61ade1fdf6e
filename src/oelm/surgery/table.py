"""The table of a Hugging Face model's weights, by which the freezing plan and the training loop name them."""

import re
from collections.abc import Collection

from torch import nn
from transformers import PreTrainedModel

from oelm.base.errors import ConfigError
from oelm.config.method import Method, Projection
from oelm.method.weights import Role, Weight
from oelm.surgery.architectures import Architecture, architecture_of
from oelm.surgery.equipped import extra_weights
from oelm.surgery.sites import Site, layer_of, layer_offsets, within_layer


def build_table(
    model: PreTrainedModel, sites: Collection[Site], method: Method, *, train_biases: bool
) -> tuple[Weight, ...]:
    """Every parameter of the model, once, extras included whether they are in it yet or not.

    QUERY and KEY are those at `sites`, with their biases unless these train. A frame is stored here, and fixed.
    """
    if method.blind and train_biases:
        raise ConfigError(f"{method.name} would look somewhere by its biases", "leave train_biases out")
    row = architecture_of(model)
    roles = _site_roles(sites, train_biases=train_biases)
    modules, offsets = dict(model.named_modules()), layer_offsets(model, row)
    whole_ffn = method.plan is not None and method.plan.ffn_share == 1
    drawn = {Role.QUERY: method.query, Role.KEY: method.key}
    extra = {weight.name: weight for weight in extra_weights(method.extras, sites)}
    weights = [*extra.values()]
    for name, parameter in model.named_parameters():
        if name in extra:
            continue
        role = roles.get(name) or _role(name, row, modules[name.rpartition(".")[0]], model)
        weights.append(
            Weight(
                name=name,
                role=role,
                count=parameter.numel(),
                layer=layer_of(name, offsets),
                fixed=drawn.get(role) is Projection.COORDINATE_FRAME,
                in_ffn_share=whole_ffn and role is Role.FFN,
            )
        )
    return tuple(weights)


def _site_roles(sites: Collection[Site], *, train_biases: bool) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for site in sites:
        for projector, role in ((site.query, Role.QUERY), (site.key, Role.KEY)):
            for name in projector.tensors:
                roles[name] = Role.BIAS if train_biases and name.endswith(".bias") else role
    return roles


def _role(name: str, row: Architecture, module: nn.Module, model: PreTrainedModel) -> Role:
    if module is _input_embeddings(model):
        return Role.TOKEN_EMBEDDING
    if isinstance(module, nn.Embedding):
        return Role.POSITION_EMBEDDING
    if "Norm" in type(module).__name__:
        return Role.NORM
    path = (within_layer(name, row) or "").rpartition(".")[0]
    patterns = {Role.VALUE: row.value, Role.OUTPUT: row.output, Role.FFN: row.ffn}
    return next((role for role, pattern in patterns.items() if re.fullmatch(pattern, path)), Role.OTHER)


def _input_embeddings(model: PreTrainedModel) -> nn.Module | None:
    """None where a model has several and names none of them, such as CLIP."""
    try:
        return model.get_input_embeddings()
    except NotImplementedError:
        return None
