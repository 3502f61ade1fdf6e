"""Ten minutes on a machine that we do not have: what works there, how fast it is, how long the studies would take.

Every check is the real thing in small: runs of a tiny GPT on the built-in stories, in a folder that goes afterwards.
"""

import math
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from oelm.base.console import Console
from oelm.base.errors import DataError, OelmError
from oelm.base.runtime import Runtime, choose_runtime, leaves_vectors_unused, processor
from oelm.config.doctor_record import Check, DoctorRecord, Outcome, Speed, StudyHours
from oelm.config.labelled_data import LabelledData
from oelm.config.model import GPT2_VOCABULARY, GPTConfig
from oelm.config.record import Record
from oelm.config.request import TrainRequest, resolve
from oelm.config.run import Precision, RunConfig
from oelm.config.yaml_file import write_yaml
from oelm.data.hub import GPT2_REPOSITORY, GPT2_REVISION, HUB_DATASETS, require_hub
from oelm.data.prepare import prepare
from oelm.data.prepare_request import PrepareRequest
from oelm.data.progress import Silent
from oelm.data.sources import Stories
from oelm.data.tokens import read_manifest
from oelm.experiments.assemble import engine_of, run
from oelm.experiments.local_launcher import cores
from oelm.experiments.study import StudyFile
from oelm.experiments.study_plan import plan_study
from oelm.experiments.subjects import subject_of
from oelm.method.freezing import frozen_names
from oelm.model.ledger import count_flops
from oelm.train.folder import RunFolder
from oelm.train.provenance import environment
from oelm.train.stopping import Interrupted

_TINY = {"layers": 2, "width": 64, "heads": 2, "seq_len": 64, "batch_size": 4, "steps": 30, "lr": 3e-3}
_SAVE_EVERY = 10
_CLOSE = 0.02
"""How far the loss of another arithmetic may lie from float32's after a few steps."""
_WAIT_SECONDS = 240
_TIMED_SECONDS = 12.0
_MOST_TIMED_STEPS = 30
_SIZES = {"small": (256, 4096), "medium-512": (512, GPT2_VOCABULARY)}
"""Context and vocabulary of the sizes that are timed."""


class _NotHere(Exception):
    """The machine does not have what a check is about."""


@dataclass(frozen=True)
class _Bench:
    """A tiny corpus, a folder for runs, and the device to look at."""

    folder: Path
    device: str

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens"

    def config(self, **changes: Any) -> RunConfig:
        """A tiny run, or another one."""
        looks = {"save_every": _SAVE_EVERY, "validate_every": _SAVE_EVERY, "validation_sequences": 16}
        settings = {"method": "oelm", **_TINY, **looks, "tensorboard": False, "device": self.device, **changes}
        return resolve(TrainRequest.model_validate(settings), read_manifest(self.tokens), str(self.tokens))

    def trained(self, name: str, **changes: Any) -> Record:
        """The record of a tiny run; a second time it is only read."""
        folder = self.folder / name
        if RunFolder(folder).finished:
            return RunFolder(folder).record()
        record = run(self.config(**changes), folder, resume=True, console=Console(quiet=True))
        assert record is not None, "one process leads"
        return record


def examine(studies: Sequence[Path], device: str, say: Callable[[str], None]) -> DoctorRecord:
    """Run all checks on a device (`auto`: what a run would take), and predict the studies."""
    began = time.perf_counter()
    runtime = choose_runtime(device)
    with TemporaryDirectory(prefix="oelm-doctor-") as folder:
        bench = _Bench(Path(folder), str(runtime.device))
        checks = []
        for name, act in _checks(bench, runtime):
            say(name)
            checks.append(_checked(name, act))
        speeds = _speeds(bench, runtime, say) if (bench.tokens / "manifest.json").is_file() else ()
    say("predicting")
    return DoctorRecord(
        environment=environment(runtime),
        system=f"{platform.system()} {platform.machine()}",
        cores=cores(),
        devices=_devices(),
        checks=tuple(checks),
        speeds=speeds,
        studies=tuple(_hours(path, speeds) for path in studies) if speeds else (),
        seconds=time.perf_counter() - began,
    )


def _devices() -> tuple[str, ...]:
    gpus = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    apple = ["mps"] if torch.backends.mps.is_available() else []
    return ("cpu", *apple, *(f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB" for gpu in gpus))


def _checked(name: str, act: Callable[[], str]) -> Check:
    began = time.perf_counter()
    try:
        outcome, note = Outcome.WORKS, act()
    except _NotHere as absent:
        outcome, note = Outcome.ABSENT, str(absent)
    except Interrupted:  # Ctrl-C is no finding
        raise
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding, and the other checks go on)
        outcome, note = Outcome.FAILED, f"{type(error).__name__}: {error}"
    said = " ".join(note.split()).replace(str(Path.home()), "~")  # the record names no person
    return Check(name=name, outcome=outcome, note=said[:400], seconds=time.perf_counter() - began)


# --- checks --------------------------------------------------------------------------------------------------------


def _checks(bench: _Bench, runtime: Runtime) -> tuple[tuple[str, Callable[[], str]], ...]:
    return (
        ("device", lambda: _device(runtime)),
        ("data", lambda: _data(bench)),
        ("training", lambda: _training(bench)),
        ("freeze audit", lambda: _freeze_audit(bench)),
        ("resume", lambda: _resume(bench)),
        ("bf16", lambda: _precision(bench, Precision.BF16)),
        ("float16", lambda: _precision(bench, Precision.FLOAT16)),
        ("compile", lambda: _compile(bench)),
        ("data parallel", lambda: _data_parallel(bench)),
        ("Apple GPU", lambda: _apple(bench)),
        ("Hub", _hub),
    )


def _device(runtime: Runtime) -> str:
    found = f"{runtime.device_name} of: {', '.join(_devices())}"
    if runtime.device.type != "cpu":
        return found
    hint = "; it can compute about twice as fast: docs/speed.md, On AMD" if leaves_vectors_unused() else ""
    return f"{found} ({processor()}){hint}"


def _data(bench: _Bench) -> str:
    request = PrepareRequest(source=Stories(text_bytes=400_000), vocabulary=512)
    manifest = prepare(request, bench.tokens, progress=Silent())
    return f"{manifest.train.tokens:,} tokens, digest {manifest.digest}"


def _training(bench: _Bench) -> str:
    record = bench.trained("float32")
    first, last = record.curve[0].loss, record.loss
    if not last < first:
        raise RuntimeError(f"the loss did not fall: {first:.4f} after {_SAVE_EVERY} steps, {last:.4f} at the end")
    return f"loss {last:.4f} after {record.config.train.steps} steps, fingerprint {record.fingerprint}"


def _freeze_audit(bench: _Bench) -> str:
    audit = bench.trained("float32").audit
    assert audit is not None, "every run of ours has one"
    if not audit.unchanged or not audit.moved:
        raise RuntimeError("a frozen tensor moved" if not audit.unchanged else "a trained tensor did not move")
    return f"{len(audit.always_frozen)} tensors byte-equal, {len(audit.trained)} moved"


def _resume(bench: _Bench) -> str:
    """As if killed after the checkpoint before the last."""
    bench.trained("float32")
    straight, resumed = RunFolder(bench.folder / "float32"), RunFolder(bench.folder / "resumed")
    shutil.copytree(straight.path, resumed.path)
    resumed.record_file.unlink()
    last = f"step-{straight.saved_step:08d}"
    shutil.rmtree(resumed.checkpoint_folder / last)
    bench.trained("resumed")
    one, other = ((each.checkpoint_folder / last / "model.safetensors").read_bytes() for each in (straight, resumed))
    if one != other:
        raise RuntimeError("the weights of a resumed run are not byte-equal to those of one that went straight")
    return "byte-equal"


def _precision(bench: _Bench, precision: Precision) -> str:
    on_gpu = bench.device.startswith("cuda")
    if precision is Precision.BF16 and on_gpu and not torch.cuda.is_bf16_supported(False):
        raise _NotHere("the GPU has no bf16 units")
    return _compared(bench, bench.trained(precision.value, precision=precision))


def _apple(bench: _Bench) -> str:
    if not torch.backends.mps.is_available():
        raise _NotHere("no MPS device")
    return _compared(bench, bench.trained("mps", device="mps"))


def _compile(bench: _Bench) -> str:
    return _compared(bench, bench.trained("compiled", compile=True))


def _compared(bench: _Bench, record: Record) -> str:
    """A run that should end near the one in float32."""
    wanted, found = bench.trained("float32").loss, record.loss
    skipped = f", {record.skipped_steps} steps skipped" if record.skipped_steps else ""
    if not math.isclose(found, wanted, rel_tol=_CLOSE):
        raise RuntimeError(f"loss {found:.4f}, but {wanted:.4f} in plain float32{skipped}")
    return f"loss {found:.4f} (plain float32: {wanted:.4f}){skipped}"


def _data_parallel(bench: _Bench) -> str:
    """Two processes that torchrun starts, with half of the batch each: NCCL on two GPUs, else gloo on the CPU."""
    on_gpus = torch.cuda.device_count() > 1
    batch = _TINY["batch_size"] // 2
    config = bench.config(processes=2, batch_size=batch, device="cuda" if on_gpus else "cpu")
    file, out = bench.folder / "parallel.yaml", bench.folder / "parallel"
    write_yaml(config, file)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "oelm", "train", "--config", str(file), "--out-dir", str(out)]
    threads = {"OMP_NUM_THREADS": str(max(1, cores() // 2))}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=_WAIT_SECONDS, env={**os.environ, **threads}
    )
    if ended.returncode:
        raise RuntimeError((ended.stderr or ended.stdout).strip()[-300:])
    return f"{'NCCL' if on_gpus else 'gloo'}: {_compared(bench, RunFolder(out).record())}"


def _hub() -> str:
    """One short question each."""
    repositories = [(each.repository, each.revision, "dataset") for each in HUB_DATASETS.values()]
    try:
        for repository, revision, kind in [*repositories, (GPT2_REPOSITORY, GPT2_REVISION, "model")]:
            require_hub(repository, revision, repository, kind=kind)  # type: ignore[arg-type]
    except DataError as error:
        raise _NotHere(str(error)) from error
    return f"{len(repositories)} corpora and the tokenizer of GPT-2 can be fetched"


# --- speed and studies ---------------------------------------------------------------------------------------------


def _speeds(bench: _Bench, runtime: Runtime, say: Callable[[str], None]) -> tuple[Speed, ...]:
    """Both sizes in float32; in the other precisions only on a GPU, where they are not slower."""
    others = (Precision.BF16, Precision.FLOAT16) if runtime.device.type != "cpu" else ()
    found = []
    for size in _SIZES:
        for precision in (Precision.FLOAT32, *others):
            say(f"speed of {size} in {precision.value}")
            try:
                found.append(_speed(bench, runtime, size, precision))
            except (RuntimeError, ValueError, OelmError) as error:  # too little memory, or no such arithmetic
                say(f"{size} in {precision.value}: {str(error).splitlines()[0]}")
    return tuple(found)


def _speed(bench: _Bench, runtime: Runtime, size: str, precision: Precision) -> Speed:
    """Steps of the baseline after one that warms up, until a few seconds have passed."""
    context, vocabulary = _SIZES[size]
    shape = {"size": size, "layers": None, "width": None, "heads": None, "seq_len": context, "vocabulary": vocabulary}
    batch = 8 if runtime.device.type != "cpu" else 2
    config = bench.config(method="baseline", **shape, batch_size=batch, precision=precision, steps=1000)
    subject = subject_of(config)
    engine = engine_of(config, subject, runtime)
    engine.ensure_frozen(frozen_names(config.method.plan, subject.table, 0, config.train.steps))
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
        sequences=batch,
        step_seconds=mean,
        tokens_per_second=batch * context / mean,
        flops_per_second=step_flops / mean,
        peak_bytes=runtime.peak_bytes(),
    )


def _hours(path: Path, speeds: Sequence[Speed]) -> StudyHours:
    """Each run's FLOPs over the speed of the size that is nearest to its own."""
    try:
        file = StudyFile.read(path)
        plan = plan_study(file, Path("runs") / file.name, Path("tokens"))
    except OelmError as error:  # the other studies, and what was examined, are not lost for it
        return StudyHours(study=path.stem, runs=0, hours=None, devices=1, by=str(error).splitlines()[0][:200])
    weights = {row.cell.name: row.counts.stored for row in plan.rows if row.counts is not None}
    nearest = [_nearest(each.config, speeds) for each in plan.runs]
    costs = [_run_flops(each.config, weights.get(each.cell.name)) for each in plan.runs]
    seconds = [cost / speed.flops_per_second for cost, speed in zip(costs, nearest, strict=True) if cost is not None]
    return StudyHours(
        study=file.name,
        runs=len(plan.runs),
        hours=sum(seconds) / 3600 if len(seconds) == len(plan.runs) else None,
        devices=plan.runs[0].config.train.processes,
        by=", ".join(dict.fromkeys(f"{speed.size} in {speed.precision.value}" for speed in nearest)),
    )


def _nearest(config: RunConfig, speeds: Sequence[Speed]) -> Speed:
    """By width, in the run's own precision if that was timed; a pre-trained model is as wide as the widest."""
    alike = [speed for speed in speeds if speed.precision is config.train.precision] or [
        speed for speed in speeds if speed.precision is Precision.FLOAT32
    ]
    width = config.model.width if isinstance(config.model, GPTConfig) else max(speed.width for speed in speeds)
    return min(alike, key=lambda speed: abs(math.log(speed.width / width)))


def _run_flops(config: RunConfig, weights: int | None) -> float | None:
    """Of our GPT exact. Of a pre-trained model 6 per weight and token of full texts: more than it takes.

    A validated sequence is a third of a trained one; the validation set is taken to be as large as it may be.
    """
    model, data, train = config.model, config.data, config.train
    validated = train.steps // train.validate_every * train.validation_sequences
    sequences = train.steps * train.sequences_per_step + validated // 3
    if isinstance(model, GPTConfig):
        tokens = sequences * model.context
        return count_flops(model, config.method, total_steps=config.train.steps, tokens=tokens).run
    if weights is None or not isinstance(data, LabelledData):
        return None
    return 6.0 * weights * sequences * data.max_length
