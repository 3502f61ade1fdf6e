"""AdamW over what is trained, and over nothing else."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from oelm.config.run import Decay, OptimConfig
from oelm.method.weights import QUERY_KEY_SIDE, Role, Weight, layer_count

Moments = dict[str, dict[str, Tensor]]
"""Adam's state by the name of the weight: `step`, `exp_avg`, `exp_avg_sq`."""


def make_optimiser(
    trained: Mapping[str, nn.Parameter],
    table: tuple[Weight, ...],
    optim: OptimConfig,
    layer_lr: float,
    query_key_lr: float = 1.0,
) -> torch.optim.AdamW:
    """Groups by weight decay (of matrices, or of all) and by the weight's share of the learning rate (`lr_share`)."""
    weights, layers = {weight.name: weight for weight in table}, layer_count(table)
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for name, parameter in trained.items():
        decays = parameter.ndim >= 2 or optim.decay is Decay.ALL
        key = (decays, lr_share(weights[name], layers, layer_lr, query_key_lr))
        groups.setdefault(key, []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": parameters, "weight_decay": optim.weight_decay if decays else 0.0, "lr_share": share}
            for (decays, share), parameters in groups.items()
        ],
        lr=optim.lr,
        betas=(optim.beta1, optim.beta2),
        eps=optim.epsilon,
        fused=True,
    )


def lr_share(weight: Weight, layers: int, layer_lr: float, query_key_lr: float = 1.0) -> float:
    """layer_lr^(layers above), on the Q/K side times query_key_lr.

    The top layer and what follows it train at 1, embeddings one below the bottom layer.
    """
    outside = layers if weight.role in (Role.TOKEN_EMBEDDING, Role.POSITION_EMBEDDING) else 0
    above = outside if weight.layer is None else layers - 1 - weight.layer
    return float(layer_lr**above) * (query_key_lr if weight.role in QUERY_KEY_SIDE else 1.0)


def read_moments(optimiser: torch.optim.Optimizer, trained: Mapping[str, nn.Parameter]) -> Moments:
    """The optimiser's state by name; a weight that has not been updated yet has none."""
    return {name: dict(optimiser.state[p]) for name, p in trained.items() if p in optimiser.state}


def write_moments(optimiser: torch.optim.Optimizer, trained: Mapping[str, nn.Parameter], moments: Moments) -> None:
    """Give each trained weight its moments back; one that has none begins anew, whatever it had gathered since."""
    optimiser.state.clear()
    for name, parameter in trained.items():
        if name in moments:
            optimiser.state[parameter] = {part: t.to(parameter.device) for part, t in moments[name].items()}
