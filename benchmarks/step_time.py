"""How long is a training step? Ours beside Hugging Face GPT-2's, and each method beside our baseline.

All contestants run in one process, interleaved: every round times a few steps of each, in a new random order, so that
a slow moment of the machine hits all alike. Reported is the median over rounds of the ratio within a round, with its
quartiles. Run it on an idle machine:

    python benchmarks/step_time.py            # writes results/step-time/SIZE.json and prints the table
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from oelm.base.runtime import Runtime
from oelm.config.methods import parse_method
from oelm.config.model import GPTConfig, named_size
from oelm.config.run import OptimConfig, Precision
from oelm.method.freezing import frozen_names
from oelm.model.gpt import GPT
from oelm.model.initialise import initialise
from oelm.model.ledger import count_flops, weight_table
from oelm.tasks.language_modelling import LanguageModelling
from oelm.train.engine import Engine

METHODS = ("baseline", "baseline+shift+gain", "oelm", "oelm-q", "oelm-frame", "oelm-lowrank", "oelm-core")
OPTIM = OptimConfig(lr=1e-4, warmup_steps=0)
HUGGING_FACE = "Hugging Face GPT-2"


class RandomWindows:
    """Random tokens with the interface of token files: the time of a step does not depend on their meaning."""

    def __init__(self, config: GPTConfig, count: int) -> None:
        self._tokens = np.random.default_rng(0).integers(config.vocabulary, size=(count, config.context + 1))

    def __len__(self) -> int:
        return len(self._tokens)

    def sequences(self, indices: range) -> np.ndarray:
        """The windows with these indices."""
        return self._tokens[np.asarray(indices) % len(self)]


def our_step(config: GPTConfig, name: str, batch: int) -> Callable[[int], object]:
    """One step of the training loop's engine."""
    method, windows = parse_method(name), RandomWindows(config, 16 * batch)
    model = GPT(config, method)
    initialise(model, seed=0)
    table = weight_table(config, method)
    runtime = Runtime(torch.device("cpu"))
    engine = Engine(model, table, OPTIM, runtime, precision=Precision.FLOAT32, accumulate=1, seed=0)
    engine.ensure_frozen(frozen_names(method.plan, table, 0, 1))
    task = LanguageModelling(windows, windows, sequences_per_step=batch, validation_batch=batch, bytes_per_token=1.0)

    def step(index: int) -> object:
        update = engine.accumulate(task, index)
        return update, engine.update(OPTIM.lr)

    return step


def hugging_face_step(config: GPTConfig, batch: int) -> Callable[[int], object]:
    """The same size, data and optimiser in a plain loop around GPT2LMHeadModel, with its fused attention."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=config.vocabulary,
            n_positions=config.context,
            n_embd=config.width,
            n_layer=config.layers,
            n_head=config.heads,
            n_inner=config.ffn_width,
            activation_function="gelu",
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            use_cache=False,
            tie_word_embeddings=True,
            attn_implementation="sdpa",
        )
    ).train()
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=OPTIM.lr, betas=(0.9, 0.95), fused=True)
    windows = RandomWindows(config, 16 * batch)

    def step(index: int) -> object:
        tokens = torch.from_numpy(windows.sequences(range(index * batch, (index + 1) * batch)))
        logits = model(input_ids=tokens[:, :-1]).logits
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss.item()

    return step


def interleaved(steps: dict[str, Callable[[int], object]], rounds: int, repeats: int) -> Iterator[dict[str, float]]:
    """Seconds per step of each contestant, round by round, in a new order each round."""
    order, index = random.Random(0), 0
    for round_number in range(rounds + 1):  # the first round warms up
        seconds = {}
        for name in order.sample(sorted(steps), len(steps)):
            start = time.perf_counter()
            for _ in range(repeats):
                steps[name](index)
                index += 1
            seconds[name] = (time.perf_counter() - start) / repeats
        if round_number:
            yield seconds


def ratio(rounds: list[dict[str, float]], name: str, reference: str) -> dict[str, float]:
    """Median and quartiles of the time relative to the reference's in the same round."""
    values = [seconds[name] / seconds[reference] for seconds in rounds]
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": middle, "lower_quartile": low, "upper_quartile": high}


def measure(size: str, *, vocabulary: int, context: int, batch: int, rounds: int, repeats: int) -> dict[str, object]:
    """Time all contestants of one size."""
    layers, width, heads = named_size(size)
    config = GPTConfig(
        layers=layers, width=width, heads=heads, ffn_width=4 * width, context=context, vocabulary=vocabulary
    )
    steps = {name: our_step(config, name, batch) for name in METHODS}
    timed = list(interleaved(steps, rounds, repeats))
    # The two that are compared with each other alternate step by step, for longer.
    pair = {"baseline": steps["baseline"], HUGGING_FACE: hugging_face_step(config, batch)}
    alternating = list(interleaved(pair, 5 * rounds, 1))
    return {
        "size": size,
        "model": config.model_dump(),
        "batch": batch,
        "rounds": rounds,
        "steps_per_round": repeats,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "baseline_over_hugging_face": ratio(alternating, "baseline", HUGGING_FACE),
        "methods": {
            name: {
                "over_baseline": ratio(timed, name, "baseline"),
                "flop_bound": 1 - count_flops(config, parse_method(name), total_steps=1, tokens=1).saved_share,
                "median_step_seconds": statistics.median(seconds[name] for seconds in timed),
            }
            for name in METHODS
        },
    }


def table(record: dict[str, object]) -> str:
    """The record as a Markdown table."""
    rows = ["| method | step time / baseline | quartiles | FLOP bound |", "|---|---|---|---|"]
    for name, row in record["methods"].items():  # type: ignore[attr-defined]
        over = row["over_baseline"]
        rows.append(
            f"| `{name}` | {over['median']:.3f} | {over['lower_quartile']:.3f} to {over['upper_quartile']:.3f} "
            f"| {row['flop_bound']:.3f} |"
        )
    return "\n".join(rows)


def main() -> None:
    """Measure, write the record, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="small")
    parser.add_argument("--vocab-size", type=int, default=4096)
    parser.add_argument("--seq-len", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/step-time"))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    record = measure(
        arguments.size,
        vocabulary=arguments.vocab_size,
        context=arguments.seq_len,
        batch=arguments.batch_size,
        rounds=arguments.rounds,
        repeats=arguments.repeats,
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / f"{arguments.size}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    ours = record["baseline_over_hugging_face"]
    print(f"our baseline / {HUGGING_FACE}: {ours['median']:.3f}\n\n{table(record)}")  # type: ignore[index]


if __name__ == "__main__":
    main()
