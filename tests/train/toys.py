"""A tiny corpus, tiny configs and a task with ragged counts."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from rich.console import Console
from torch import Tensor, nn

from oelm.base.files import read_json, write_json
from oelm.base.runtime import Runtime, generator_for
from oelm.config.manifest import TokenizerKind
from oelm.config.measure import LOSS
from oelm.config.methods import parse_method
from oelm.config.model import GPTConfig, Style
from oelm.config.record import TIME_FIELDS, Record
from oelm.config.request import TrainRequest, resolve
from oelm.config.run import OptimConfig, Precision, RunConfig
from oelm.config.settings import parse
from oelm.data.prepare import prepare
from oelm.data.prepare_request import PrepareRequest
from oelm.data.sources import Files
from oelm.data.tokens import read_manifest
from oelm.experiments.assemble import run
from oelm.experiments.subjects import build_model
from oelm.model.gpt import GPT
from oelm.model.initialise import initialise
from oelm.model.ledger import weight_table
from oelm.tasks.task import Batch, LossSum
from oelm.train.engine import Engine
from oelm.train.folder import RunFolder
from oelm.train.run_record import read_events

CPU = Runtime(torch.device("cpu"))
QUIET = Console(quiet=True)
TINY = {"layers": 2, "width": 16, "heads": 2, "ffn_width": 32, "seq_len": 16, "batch_size": 2}


def toy_text(sentences: int = 1000) -> str:
    """Sentences of a few words, the same on every machine, in documents of five."""
    words, state, lines = ("the", "cat", "sees", "a", "red", "house", "and", "it", "runs", "home"), 1, []
    for index in range(sentences):
        chosen = []
        for _ in range(6):
            state = (1103515245 * state + 12345) % 2**31  # a random number generator that never changes
            chosen.append(words[(state >> 16) % len(words)])
        lines.append(" ".join(chosen) + ".")
        if index % 5 == 4:
            lines.append("<|endoftext|>")
    return "\n".join(lines) + "\n"


@cache
def _tokens_folder() -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="oelm-tokens-")
    text = Path(folder.name) / "toy.txt"
    text.write_text(toy_text())
    request = PrepareRequest(source=Files(paths=(str(text),)), tokenizer=TokenizerKind.BYTES)
    prepare(request, Path(folder.name) / "tokens")
    return folder


def tokens() -> Path:
    """A folder of token files, made once per process: about 25,000 bytes to train on."""
    return Path(_tokens_folder().name) / "tokens"


def tiny_config(method: str = "oelm", *, precision: Precision = Precision.FLOAT32, **changes: object) -> RunConfig:
    """A run of a few milliseconds per step on `tokens()`."""
    values = {
        **TINY,
        "method": method,
        "steps": 20,
        "lr": 1e-2,
        "log_every": 5,
        "validation_sequences": 8,
        "tensorboard": False,
        "device": "cpu",
        "precision": precision,
        **changes,
    }
    return resolve(parse(TrainRequest, values, "toy"), read_manifest(tokens()), str(tokens()))


def flags(**changes: object) -> list[str]:
    """The command line that asks for `tiny_config(**changes)`."""
    settings = {"data": tokens(), **TINY, "steps": 20, "lr": 1e-2, "log_every": 5, "validation_sequences": 8}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in {**settings, **changes}.items()]
    return ["train", *words, "--device=cpu", "--no-tensorboard"]


def trained(config: RunConfig, folder: Path, *, resume: bool = False) -> Record:
    record = run(config, folder, resume=resume, console=QUIET)
    assert record is not None
    return record


def engine_for(config: RunConfig, model: GPT | None = None, **changes: object) -> Engine:
    """The engine of a config as `run` makes it."""
    settings = {"precision": config.train.precision, "accumulate": config.train.accumulate, "seed": config.seed}
    model = model or build_model(config)
    table = weight_table(config.model, config.method)
    rates = {"layer_lr": config.method.extras.layer_lr, "query_key_lr": config.method.extras.query_key_lr}
    return Engine(model, table, config.optim, CPU, **{**rates, **settings, **changes})  # type: ignore[arg-type]


def last_weights(folder: Path) -> bytes:
    """The bytes of the last checkpoint's weights."""
    return (sorted((folder / "checkpoint").glob("step-*"))[-1] / "model.safetensors").read_bytes()


def without_digests(checkpoint: Path) -> None:
    """A checkpoint as it was written before there were digests."""
    (checkpoint / "digests.json").unlink()
    values = read_json(checkpoint / "training.json")
    del values["format"], values["progress"]["events_digest"], values["progress"]["audit_digest"]
    write_json(checkpoint / "training.json", values)


def timeless_events(folder: Path) -> list[dict[str, object]]:
    """All events without what differs between two otherwise equal runs."""
    events = read_events(RunFolder(folder).events_file)
    return [event.model_dump(exclude=set(TIME_FIELDS)) for event in events]


def timeless_record(folder: Path) -> dict[str, object]:
    # The code's own commit is not the run's doing, and may change while the tests run.
    changing = {"timing": True, "sessions": True, "digest": True, "environment": {"git_commit", "git_dirty"}}
    values = RunFolder(folder).record().model_dump(exclude=changing)
    values["curve"] = [{name: value for name, value in point.items() if name != "seconds"} for point in values["curve"]]
    return values


RAGGED = GPTConfig(layers=2, width=16, heads=2, ffn_width=32, context=8, vocabulary=13)
RAGGED_OPTIM = OptimConfig(lr=1e-2, warmup_steps=0)


def ragged_engine(
    method: str = "baseline", *, accumulate: int = 1, runtime: Runtime = CPU, style: Style = Style.GPT
) -> Engine:
    """A float64 engine for `RaggedTask`."""
    chosen, size = parse_method(method), RAGGED.model_copy(update={"style": style})
    model = GPT(size, chosen)
    initialise(model, seed=0)
    table = weight_table(size, chosen)
    return Engine(model, table, RAGGED_OPTIM, runtime, precision=Precision.FLOAT64, accumulate=accumulate, seed=0)


class RaggedTask:
    """Next-token prediction where sequence i of 8 counts only its first i + 1 targets: counts differ between parts."""

    name = "ragged"
    measures = (LOSS,)
    sequences = 8

    def training_batch(self, step: int, part: int, parts: int) -> Batch:
        shape = (self.sequences, RAGGED.context + 1)
        window = torch.randint(RAGGED.vocabulary, shape, generator=generator_for(step, "ragged"))
        targets = window[:, 1:].clone()
        for index, row in enumerate(targets):
            row[index + 1 :] = -100
        size = self.sequences // parts
        mine = slice(part * size, (part + 1) * size)
        return {"tokens": window[mine, :-1], "targets": targets[mine]}

    def validation_batches(self, part: int, parts: int) -> Iterator[Batch]:
        yield self.training_batch(1000, part, parts)

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        logits, targets = model(batch["tokens"]).flatten(0, 1), batch["targets"].flatten()
        total = nn.functional.cross_entropy(logits, targets, ignore_index=-100, reduction="sum")
        return LossSum(total, (targets != -100).sum())

    def measure(self, model: nn.Module, batch: Batch) -> Tensor:
        loss = self.loss(model, batch)
        return torch.stack([loss.total.double(), loss.count.double()])

    def summarise(self, sums: Tensor) -> dict[str, float]:
        return {"loss": float(sums[0] / sums[1])}

    def tokens(self, batch: Batch) -> int:
        return batch["tokens"].numel()


def gradients(engine: Engine) -> dict[str, Tensor]:
    """Of the mean loss: the engine itself divides only when it updates."""
    divisor = engine._sums[1] / engine.runtime.world
    return {name: p.grad / divisor for name, p in engine.model.named_parameters() if p.grad is not None}


def set_gradients(engine: Engine, value: float) -> None:
    """As if a loss of one token had given every weight this gradient."""
    engine._sums[1] = 1
    for parameter in engine.model.parameters():
        parameter.grad = torch.full_like(parameter, value)
