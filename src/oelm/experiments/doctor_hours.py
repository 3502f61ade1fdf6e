"""How fast a machine trains two sizes, and how long the studies would take at that speed."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from oelm.base.errors import OelmError
from oelm.base.runtime import Runtime, choose_runtime
from oelm.config.doctor_record import Speed, StudyHours
from oelm.config.labelled_data import LabelledData
from oelm.config.manifest import TokenizerKind
from oelm.config.model import GPT2_VOCABULARY, GPTConfig
from oelm.config.run import DataConfig, Precision, RunConfig
from oelm.data.hub import HUB_DATASETS
from oelm.data.prepare_request import PrepareRequest
from oelm.data.sources import Hub, Stories
from oelm.data.tokens import MANIFEST_FILE, read_manifest
from oelm.experiments.assemble import engine_of
from oelm.experiments.deadline import TooLongError, at_most
from oelm.experiments.doctor_bench import CPU, Bench
from oelm.experiments.study import StudyData, StudyFile
from oelm.experiments.study_plan import plan_study
from oelm.experiments.subjects import subject_of
from oelm.method.freezing import frozen_names
from oelm.model.ledger import count_flops

_TIMED_SECONDS = 12.0
_MOST_TIMED_STEPS = 30
_MOST_SECONDS = 150.0
"""For one size in one precision, building and warming up included."""
_SMALL = "small"
_SIZES = {_SMALL: (256, 4096), "medium-512": (512, GPT2_VOCABULARY)}
"""Context and vocabulary of the sizes that are timed."""
_BYTES_PER_TOKEN = 4.0
"""Of English text, about: GPT-2's tokenizer takes a few more, and so validation is counted rather too high."""


# --- speed ---------------------------------------------------------------------------------------------------------


def timed_speeds(bench: Bench, runtime: Runtime, say: Callable[[str], None]) -> tuple[Speed, ...]:
    """On the device that is looked at, or on the CPU where nothing could be timed on it."""
    found = _speeds_on(runtime, bench, say)
    return found if found or bench.device == CPU else _speeds_on(choose_runtime(CPU), bench, say)


def _speeds_on(runtime: Runtime, bench: Bench, say: Callable[[str], None]) -> tuple[Speed, ...]:
    found = []
    for size, precision in _what_is_timed(runtime.device):
        said = f"speed of {size} in {precision.value} on {runtime.device}"
        say(said)
        try:
            with at_most(_MOST_SECONDS):
                found.append(_speed(bench, runtime, size, precision))
        except (RuntimeError, ValueError, OelmError, TooLongError) as error:  # too little memory, no such arithmetic
            say(f"{said}: {str(error).splitlines()[0]}")
    return tuple(found)


def _what_is_timed(device: torch.device) -> list[tuple[str, Precision]]:
    """On a GPU everything. On a CPU float16 may take many times as long: the small size is enough to show it."""
    low = [each for each in (Precision.BF16, Precision.FLOAT16) if lacking(device, each) is None]
    sizes = [_SMALL] if device.type == CPU else list(_SIZES)
    return [*((size, Precision.FLOAT32) for size in _SIZES), *((size, each) for each in low for size in sizes)]


def lacking(device: torch.device, precision: Precision) -> str | None:
    """Why a device cannot compute in a precision, if so. (MPS would silently compute in float32 instead.)"""
    if precision is not Precision.BF16:
        return None
    if device.type == "mps" and not torch.backends.mps.is_macos_or_newer(14, 0):
        return "MPS has bf16 from macOS 14 on"
    if device.type == "cuda":
        with torch.cuda.device(device):
            return None if torch.cuda.is_bf16_supported(including_emulation=False) else "the GPU has no bf16 units"
    return None


def _speed(bench: Bench, runtime: Runtime, size: str, precision: Precision) -> Speed:
    """Steps of the baseline after one that warms up, until a few seconds have passed."""
    context, vocabulary = _SIZES[size]
    shape = {"size": size, "layers": None, "width": None, "heads": None, "seq_len": context, "vocabulary": vocabulary}
    batch = 8 if runtime.device.type != CPU else 2
    config = bench.config(method="baseline", **shape, batch_size=batch, precision=precision, steps=1000)
    subject = subject_of(config)
    engine = engine_of(config, subject, runtime)
    engine.ensure_frozen(frozen_names(config.method.plan, subject.table, 0, config.train.steps))
    runtime.reset_peak()
    seconds: list[float] = []
    while not seconds[1:] or (sum(seconds[1:]) < _TIMED_SECONDS and len(seconds) <= _MOST_TIMED_STEPS):
        began = time.perf_counter()
        engine.accumulate(subject.task, len(seconds))
        engine.update(1e-4)
        runtime.synchronise()
        seconds.append(time.perf_counter() - began)
    mean = sum(seconds[1:]) / len(seconds[1:])
    assert isinstance(config.model, GPTConfig)
    step_flops = count_flops(config.model, config.method, total_steps=1, tokens=batch * context).run
    return Speed(
        size=size,
        width=config.model.width,
        precision=precision,
        device=runtime.device.type,
        sequences=batch,
        step_seconds=mean,
        tokens_per_second=batch * context / mean,
        flops_per_second=step_flops / mean,
        peak_bytes=runtime.peak_bytes(),
    )


# --- hours ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rate:
    """FLOPs per second of a size in a precision, and how they are known."""

    width: int
    precision: Precision
    flops_per_second: float
    by: str


def study_hours(path: Path, speeds: Sequence[Speed]) -> StudyHours:
    """Each run's FLOPs over the speed of the size that is nearest to its own."""
    try:
        file = StudyFile.read(path)
        plan = plan_study(file, Path("runs") / file.name, Path("tokens"))
    except OelmError as error:  # the other studies, and what was examined, are not lost for it
        return StudyHours(study=path.stem, runs=0, hours=None, devices=1, by=str(error).splitlines()[0][:200])
    weights = {row.cell.name: row.counts.stored for row in plan.rows if row.counts is not None}
    rates = _rates(speeds)
    nearest = [_nearest(each.config, rates) for each in plan.runs]
    validated = [_validated(each.config, plan.study.data[each.cell.data]) for each in plan.runs]
    costs = [
        _run_flops(each.config, weights.get(each.cell.name), sequences)
        for each, (sequences, _) in zip(plan.runs, validated, strict=True)
    ]
    seconds = [cost / rate.flops_per_second for cost, rate in zip(costs, nearest, strict=True) if cost is not None]
    return StudyHours(
        study=file.name,
        runs=len(plan.runs),
        hours=sum(seconds) / 3600 if len(seconds) == len(plan.runs) else None,
        at_most=not all(known for _, known in validated),
        devices=plan.runs[0].config.train.processes,
        by=", ".join(dict.fromkeys(_by(each.config, rate) for each, rate in zip(plan.runs, nearest, strict=True))),
    )


def _rates(speeds: Sequence[Speed]) -> tuple[_Rate, ...]:
    """What was timed; a size that was timed in float32 alone is in another precision as much slower as another one."""
    plain = {speed.size: speed for speed in speeds if speed.precision is Precision.FLOAT32}
    rates = {
        (each.size, each.precision): _Rate(each.width, each.precision, each.flops_per_second, _said(each))
        for each in speeds
    }
    for low in speeds:
        for size, own in plain.items() if low.size in plain else ():
            share = low.flops_per_second / plain[low.size].flops_per_second
            by = f"{_said(own)}, scaled to {low.precision.value} as {low.size} was"
            scaled = _Rate(own.width, low.precision, share * own.flops_per_second, by)
            rates.setdefault((size, low.precision), scaled)
    return tuple(rates.values())


def _said(speed: Speed) -> str:
    return f"{speed.size} in {speed.precision.value} on {speed.device}"


def _nearest(config: RunConfig, rates: Sequence[_Rate]) -> _Rate:
    """By width, in the run's own precision if that is known; a pre-trained model is as wide as the widest."""
    alike = [rate for rate in rates if rate.precision is config.train.precision]
    plain = [rate for rate in rates if rate.precision is Precision.FLOAT32]
    width = config.model.width if isinstance(config.model, GPTConfig) else max(rate.width for rate in rates)
    return min(alike or plain or rates, key=lambda rate: abs(math.log(rate.width / width)))


def _by(config: RunConfig, rate: _Rate) -> str:
    own = config.train.precision
    return rate.by if rate.precision is own else f"{rate.by}, though {own.value} was not timed"


def _run_flops(config: RunConfig, weights: int | None, validated: int) -> float | None:
    """Of our GPT exact. Of a pre-trained model 6 per weight and token of full texts: more than it takes.

    A validated sequence is a third of a trained one; `validated` are read at each validation.
    """
    model, data, train = config.model, config.data, config.train
    sequences = train.steps * train.sequences_per_step + train.steps // train.validate_every * validated // 3
    if isinstance(model, GPTConfig):
        tokens = sequences * model.context
        return count_flops(model, config.method, total_steps=config.train.steps, tokens=tokens).run
    if weights is None or not isinstance(data, LabelledData):
        return None
    return 6.0 * weights * sequences * data.max_length


def _validated(config: RunConfig, data: StudyData) -> tuple[int, bool]:
    """How many full sequences a validation reads, and whether that is sure: labelled texts and files may be shorter."""
    train, model = config.train, config.model
    if not isinstance(model, GPTConfig):
        return train.validation_sequences, False
    if not isinstance(config.data, DataConfig):
        return train.validation_sequences, True
    tokens = _validation_tokens(Path(config.data.folder), data)
    if tokens is None:
        return train.validation_sequences, False
    share = tokens if train.validation_half is None else tokens / 2
    return min(train.validation_sequences, max(1, int(share / model.context))), True


def _validation_tokens(folder: Path, data: StudyData) -> float | None:
    """Exactly, of data that are prepared; about, where their size is known before; else None."""
    if (folder / MANIFEST_FILE).is_file():
        return read_manifest(folder).valid.tokens
    size = _validation_bytes(data) if isinstance(data, PrepareRequest) else None
    if size is None:
        return None
    assert isinstance(data, PrepareRequest)
    return size if data.tokenizer is TokenizerKind.BYTES else size / _BYTES_PER_TOKEN


def _validation_bytes(request: PrepareRequest) -> float | None:
    match request.validation, request.source:
        case Hub(corpus=corpus), _:
            return HUB_DATASETS[corpus].validation_bytes
        case None, Stories(text_bytes=int(whole)):
            return _held_out(request, whole)
        case None, Hub() if request.max_documents is None:  # so large that the most is held out
            return _held_out(request, math.inf)
        case _:
            return None


def _held_out(request: PrepareRequest, whole: float) -> float:
    return min(request.holdout_share * min(whole, request.max_bytes or math.inf), request.holdout_bytes)
