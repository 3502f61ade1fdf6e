"""The same size, data and optimiser in the plain loop of somebody who does not use oelm."""

import contextlib
import shutil
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oelm.base.errors import ConfigError
from oelm.base.runtime import Runtime, give_large_blocks_back, keep_freed_memory
from oelm.bench.contestant import Builder, Contestant
from oelm.bench.ours import OPTIM
from oelm.bench.plain_gpt import PlainGPT, continue_plainly
from oelm.bench.random_tokens import batch_at, prompt, training_windows, validation_windows
from oelm.bench.rounds import Act
from oelm.bench.spec import BenchSpec, Peer, What, peer_name
from oelm.bench.useful import VALIDATION_BATCHES
from oelm.config.run import Precision

# B batch  T time  V vocabulary

Forward = Callable[[Tensor], Tensor]
"""Tokens (B, T) -> logits (B, T, V)."""


def peer_builders(spec: BenchSpec, runtime: Runtime) -> dict[str, Builder]:
    """Every peer that takes part, and its compiled twin where that is asked for."""
    found: dict[str, Builder] = {}
    for peer in spec.peers:
        name = peer_name(spec, peer)
        found[name] = partial(_peer, spec, peer, runtime, compiled=False)
        if spec.compiled_peers and spec.what is not What.GENERATE:
            require_compiler(runtime)
            found[f"{name}, compiled"] = partial(_peer, spec, peer, runtime, compiled=True)
    return found


def require_compiler(runtime: Runtime) -> None:
    """Refuse to compile where nothing compiles."""
    if runtime.device.type == "cpu" and not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        raise ConfigError("torch.compile needs a C++ compiler, and there is none", "install g++, or do not compile")


def _peer(spec: BenchSpec, peer: Peer, runtime: Runtime, *, compiled: bool) -> Contestant:
    torch.manual_seed(0)
    model, forward, continued = _model(spec, peer)
    dtype = torch.float64 if spec.precision is Precision.FLOAT64 else torch.float32
    model.to(runtime.device, dtype)
    if compiled:
        forward = torch.compile(forward)
    match spec.what:
        case What.VALIDATE:
            return Contestant(_by_default(_validation(spec, model, forward, runtime), runtime), 1.0)
        case What.GENERATE:
            start_BT = torch.tensor([prompt(spec)], device=runtime.device)
            return Contestant(lambda _index: continued(start_BT), 1.0 if peer is Peer.HUGGING_FACE else None)
        case _:
            return Contestant(_by_default(_training(spec, model, forward, runtime), runtime), 1.0)


def _by_default(act: Act, runtime: Runtime) -> Act:
    """The peer as others run it: large blocks of memory go back to the system. Keeping them is part of our engine."""
    if runtime.device.type != "cpu":
        return act

    def step(index: int) -> object:
        give_large_blocks_back()
        try:
            return act(index)
        finally:
            keep_freed_memory()

    return step


def _model(spec: BenchSpec, peer: Peer) -> tuple[nn.Module, Forward, Forward]:
    """A model, its logits, and how it continues a prompt."""
    match peer:
        case Peer.PLAIN:
            plain = PlainGPT(spec.shape)
            return plain, plain, lambda prompt_BT: continue_plainly(plain, prompt_BT, spec.tokens)
        case Peer.HUGGING_FACE:
            from oelm.surgery.random_models import continue_greedily, logits_of, random_language_model

            theirs = random_language_model(spec.shape)
            return (
                theirs,
                lambda tokens_BT: logits_of(theirs, tokens_BT),
                lambda prompt_BT: continue_greedily(theirs, prompt_BT, spec.tokens),
            )


def _training(spec: BenchSpec, model: nn.Module, forward: Forward, runtime: Runtime) -> Act:
    windows, optimiser = training_windows(spec), plain_optimiser(model)
    model.train()

    def step(index: int) -> object:
        tokens_BT, targets_BT = batch_at(windows, spec.batch_size, index)
        with arithmetic(spec, runtime):
            logits_BTV = forward(tokens_BT.to(runtime.device))
            loss = F.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.to(runtime.device).flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), OPTIM.clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss.item()

    return step


def plain_optimiser(model: nn.Module) -> torch.optim.AdamW:
    """Fused AdamW, weight decay on matrices only."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": OPTIM.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=OPTIM.lr, betas=(OPTIM.beta1, OPTIM.beta2), fused=True)


def _validation(spec: BenchSpec, model: nn.Module, forward: Forward, runtime: Runtime) -> Act:
    windows = validation_windows(spec)
    model.eval()

    @torch.no_grad()
    def validate(_index: int) -> object:
        total = 0.0
        for batch in range(VALIDATION_BATCHES):
            tokens_BT, targets_BT = batch_at(windows, spec.batch_size, batch)
            with arithmetic(spec, runtime):
                logits_BTV = forward(tokens_BT.to(runtime.device))
                total += F.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.to(runtime.device).flatten()).item()
        return total / VALIDATION_BATCHES

    return validate


def arithmetic(spec: BenchSpec, runtime: Runtime) -> contextlib.AbstractContextManager[object]:
    """Autocast to bf16 if that is asked for."""
    if spec.precision is Precision.BF16:
        return torch.autocast(runtime.device.type, torch.bfloat16)
    return contextlib.nullcontext()
