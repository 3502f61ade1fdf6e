"""Small models and configs that several test folders share."""

import torch
from torch import Tensor, nn

from oelm.base.runtime import generator_for
from oelm.config.methods import METHODS, parse_method
from oelm.config.model import GPTConfig, Style
from oelm.config.run import DataConfig, MachineConfig, OptimConfig, RunConfig, TrainConfig
from oelm.model.gpt import GPT
from oelm.model.initialise import initialise

MEDIUM_512 = GPTConfig(layers=6, width=512, heads=8, ffn_width=2048, context=512, vocabulary=50257)
SMALL = GPTConfig(layers=3, width=24, heads=4, ffn_width=48, context=12, vocabulary=29)
LLAMA = SMALL.model_copy(update={"style": Style.LLAMA})

# Every named method, and combinations of extras, key sources and plans that no named method has.
MODIFIED = (
    "baseline+shift+gain",
    "baseline+rolled+shift",
    "baseline+tied+core",
    "oelm+freeze=0.25",
    "oelm+freeze=0.5+all-but-last=1+core+rank=3",
    "oelm+freeze=k+layers=0,2",
    "oelm-core+rank=2",
    "oelm-q+shift+gain",
    "oelm-frame+rolled+freeze=0.25",
    "orthogonal-trained+rolled+rank=2+gain",
    "oelm-frame+core",
    "oelm-frame+rank=32",
    "oelm-core+rank=16",
    "oelm+tied+shift+gain+rank=4",
    "baseline+thin=3",
    "oelm-core+thin=4+rank=2",
    "oelm-frame+core+thin=3",
    "oelm-q+thin=2+shift",
    "oelm-core+one-draw",
    "oelm-frame+core+strided",
    "oelm-frame+thin=4+rolled+strided",
    "oelm-q+strided",
    "oelm+bias",
    "oelm-frame+bias+core+strided",
    "oelm-core+gain=2+qk-lr=0.3",
)
NORMED = ("baseline+norm", "oelm-core+bias+norm", "oelm-frame+rolled+gain=4+norm+thin=3+strided", "oelm+norm")
"""Not linear in x, so they cannot be exported."""
VARIETY = (*METHODS, *MODIFIED, *NORMED)
LLAMA_VARIETY = tuple(method.replace("thin=3", "thin=2") for method in VARIETY)
"""Rotary positions turn pairs."""
STYLED = (*((SMALL, method) for method in VARIETY), *((LLAMA, method) for method in LLAMA_VARIETY))


def bold_model(method: str, config: GPTConfig = SMALL, seed: int = 0) -> GPT:
    """A float64 model whose weights all have std 0.5: at the usual 0.02 a wrong model looks right."""
    model = GPT(config, parse_method(method)).double().eval()
    embolden(model, seed)
    return model


def built(model: GPT, seed: int) -> GPT:
    """The model itself, initialised."""
    initialise(model, seed)
    return model


def embolden(module: nn.Module, seed: int = 0) -> None:
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, dtype=torch.float64, generator=generator_for(seed, "bold", name))
            parameter.copy_(0.5 * noise)


def random_tokens(config: GPTConfig, batch: int, time: int, seed: int = 0) -> Tensor:
    return torch.randint(config.vocabulary, (batch, time), generator=generator_for(seed, "tokens"))


def relative_error(actual: Tensor, expected: Tensor) -> float:
    return ((actual - expected).abs().max() / expected.abs().max()).item()


def run_config(method: str = "oelm", **train: int) -> RunConfig:
    return RunConfig(
        model=SMALL,
        method=parse_method(method),
        data=DataConfig(folder="data/stories", name="stories", digest="0123456789abcdef"),
        optim=OptimConfig(lr=3e-4, warmup_steps=10),
        train=TrainConfig(**{"steps": 100, "batch_size": 8, "validate_every": 10, "validation_sequences": 16, **train}),
        machine=MachineConfig(save_every=10),
        seed=0,
    )
