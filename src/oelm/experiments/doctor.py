"""Ten minutes on a machine that we do not have: what works there, how fast it is, how long the studies would take.

Every check is the real thing in small: runs of a tiny GPT on the built-in stories, in a folder that goes afterwards.
One of them, on the CPU in float32, is what all others are compared with.
"""

import math
import platform
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from oelm.base.runtime import Runtime, choose_runtime, leaves_vectors_unused, processor
from oelm.config.doctor_record import Check, DoctorRecord, Outcome
from oelm.config.record import Record
from oelm.config.run import Precision
from oelm.data.hub import datasets_cache
from oelm.data.prepare import prepare
from oelm.data.prepare_request import PrepareRequest
from oelm.data.progress import Silent
from oelm.data.sources import Stories
from oelm.data.tokens import MANIFEST_FILE
from oelm.experiments.deadline import at_most
from oelm.experiments.doctor_bench import CPU, SAVE_EVERY, Bench, NotHere, plain_name
from oelm.experiments.doctor_hours import lacking, study_hours, timed_speeds
from oelm.experiments.doctor_hub import fetched_tokenizer, hub_needs, named, seen_of
from oelm.experiments.doctor_parallel import trained_by_two
from oelm.experiments.gpus import driver_version, read_gpus
from oelm.experiments.local_launcher import cores
from oelm.experiments.tables import written_bytes
from oelm.train.folder import RunFolder
from oelm.train.provenance import environment, package_versions
from oelm.train.stopping import Interrupted

_CLOSE = 0.02
"""How far the loss on another device or in another arithmetic may lie from that on the CPU in float32."""
_CHECKING_SECONDS = 420.0
"""No check begins later than that: the speeds, which take two or three minutes on a slow CPU, come after them."""
_CHECK_SECONDS = 240.0
_LONGEST_NOTE = 400
_TRACEBACK_LINES = 12
_LONGEST_LINE = 200

_Act = Callable[[], str]


def examine(studies: Sequence[Path], device: str, say: Callable[[str], None]) -> DoctorRecord:
    """Run all checks on a device, and predict the studies."""
    began = time.perf_counter()
    runtime = _chosen(device)
    with TemporaryDirectory(prefix="oelm-doctor-") as folder:
        bench = Bench(Path(folder), str(runtime.device))
        checks = []
        for name, act in _checks(bench, runtime, studies):
            say(name)
            late = time.perf_counter() - began > _CHECKING_SECONDS
            checks.append(_left_out(name) if late else _checked(name, act))
        speeds = timed_speeds(bench, runtime, say) if (bench.tokens / MANIFEST_FILE).is_file() else ()
    say("predicting")
    return DoctorRecord(
        environment=environment(runtime),
        versions=_versions(),
        system=f"{platform.system()} {platform.machine()}",
        cores=cores(),
        devices=_devices(),
        checks=tuple(checks),
        speeds=speeds,
        studies=tuple(study_hours(path, speeds) for path in studies) if speeds else (),
        seconds=time.perf_counter() - began,
    )


def _chosen(device: str) -> Runtime:
    """Of `auto` the machine's GPU: also Apple's, which a run takes only if it is told to."""
    apple = device == "auto" and not torch.cuda.is_available() and torch.backends.mps.is_available()
    return choose_runtime("mps" if apple else device)


def _devices() -> tuple[str, ...]:
    gpus = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    apple = ["mps"] if torch.backends.mps.is_available() else []
    return (CPU, *apple, *(f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB" for gpu in gpus))


def _versions() -> dict[str, str]:
    on_cuda = torch.cuda.is_available() and torch.distributed.is_nccl_available()
    found: dict[str, str | None] = {
        **package_versions(),
        "CUDA": torch.version.cuda,
        "NCCL": ".".join(map(str, torch.cuda.nccl.version())) if on_cuda else None,  # type: ignore[no-untyped-call]
        "driver": driver_version(),
        "macOS": platform.mac_ver()[0],
    }
    return {name: version for name, version in found.items() if version}


def _checked(name: str, act: _Act) -> Check:
    began = time.perf_counter()
    last: tuple[str, ...] = ()
    try:
        with at_most(_CHECK_SECONDS):
            outcome, note = Outcome.WORKS, act()
    except NotHere as absent:
        outcome, note = Outcome.ABSENT, str(absent)
    except Interrupted:  # Ctrl-C is no finding
        raise
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding, and the other checks go on)
        outcome, note, last = Outcome.FAILED, f"{type(error).__name__}: {error}", _last_lines(error)
    seconds = time.perf_counter() - began
    return Check(name=name, outcome=outcome, note=_shortened(note), seconds=seconds, traceback=last)


def _left_out(name: str) -> Check:
    return Check(name=name, outcome=Outcome.LEFT_OUT, note="the time was over", seconds=0.0)


def _shortened(note: str) -> str:
    """In one line, of a long one both ends."""
    said, half = _nameless(" ".join(note.split())), _LONGEST_NOTE // 2
    return said if len(said) <= _LONGEST_NOTE else f"{said[:half]} ... {said[-half:]}"


def _last_lines(error: Exception) -> tuple[str, ...]:
    lines = "".join(traceback.format_exception(error)).splitlines()
    return tuple(_nameless(line)[:_LONGEST_LINE] for line in lines[-_TRACEBACK_LINES:])


def _nameless(text: str) -> str:
    """The record names no person."""
    return text.replace(str(Path.home()), "~")


# --- checks --------------------------------------------------------------------------------------------------------


def _checks(bench: Bench, runtime: Runtime, studies: Sequence[Path]) -> Iterator[tuple[str, _Act]]:
    """What is quick comes first."""
    yield "device", partial(_device, runtime)
    yield "disk", _disk
    yield "idle GPUs", _idle_gpus
    yield "Hub: GPT-2's tokenizer", fetched_tokenizer
    for need in hub_needs(studies):
        yield f"Hub: {named(need)}", partial(seen_of, need)
    yield "data", partial(_data, bench)
    yield "training", partial(_training, bench)
    for gpu in _gpus():
        yield f"training on {gpu}", partial(_training_on, bench, gpu)
    yield "freeze audit", partial(_freeze_audit, bench)
    yield "resume", partial(_resume, bench)
    yield "bf16", partial(_precision, bench, runtime.device, Precision.BF16)
    yield "float16", partial(_precision, bench, runtime.device, Precision.FLOAT16)
    yield "data parallel", partial(_data_parallel, bench)
    yield "compile", partial(_compile, bench)


def _gpus() -> tuple[str, ...]:
    """Every one of the machine."""
    apple = ["mps"] if torch.backends.mps.is_available() else []
    return (*(f"cuda:{index}" for index in range(torch.cuda.device_count())), *apple)


def _device(runtime: Runtime) -> str:
    found = f"{runtime.device_name} of: {', '.join(_devices())}"
    match runtime.device.type:
        case "cpu":
            hint = "; it can compute about twice as fast: docs/speed.md, On AMD" if leaves_vectors_unused() else ""
            return f"{found} ({processor()}){hint}"
        case "mps":
            return f"{found}; runs take it with --device mps, else the CPU"
        case _:
            return found


def _disk() -> str:
    cache = datasets_cache()
    there = next(path for path in (cache, *cache.parents) if path.is_dir())
    here, hub = (written_bytes(shutil.disk_usage(path).free) for path in (Path(), there))
    return f"{here} free here, {hub} where the Hub's files go"


def _idle_gpus() -> str:
    """What the launcher asks before it takes a GPU of a shared server."""
    seen = read_gpus()
    if not seen and torch.cuda.is_available() and torch.version.cuda:
        raise RuntimeError("torch finds a GPU and NVML none: `oelm experiment run` would wait for one forever")
    if not seen:
        raise NotHere("no NVIDIA driver")
    return "; ".join(
        f"GPU {gpu.index}: {gpu.name}, {written_bytes(gpu.free_bytes)} free, {len(gpu.processes)} processes"
        for gpu in seen
    )


def _data(bench: Bench) -> str:
    request = PrepareRequest(source=Stories(text_bytes=400_000), vocabulary=512)
    manifest = prepare(request, bench.tokens, progress=Silent())
    return f"{manifest.train.tokens:,} tokens, digest {manifest.digest}"


def _training(bench: Bench) -> str:
    record = bench.plain(CPU)
    first, last = record.curve[0].loss, record.loss
    if not last < first:
        raise RuntimeError(f"the loss did not fall: {first:.4f} after {SAVE_EVERY} steps, {last:.4f} at the end")
    return f"loss {last:.4f} after {record.config.train.steps} steps on the CPU, fingerprint {record.fingerprint}"


def _training_on(bench: Bench, gpu: str) -> str:
    return _compared(bench, bench.plain(gpu))


def _freeze_audit(bench: Bench) -> str:
    audit = bench.plain(bench.device).audit
    assert audit is not None, "every run of ours has one"
    if not audit.unchanged or not audit.moved:
        raise RuntimeError("a frozen tensor moved" if not audit.unchanged else "a trained tensor did not move")
    return f"{len(audit.always_frozen)} tensors byte-equal, {len(audit.trained)} moved"


def _resume(bench: Bench) -> str:
    """As if killed after the checkpoint before the last."""
    bench.plain(bench.device)
    straight, resumed = bench.run_folder(plain_name(bench.device)), bench.run_folder("resumed")
    shutil.copytree(straight.path, resumed.path)
    resumed.record_file.unlink()
    shutil.rmtree(_last_checkpoint(resumed))
    bench.trained("resumed")
    if _weights(resumed) == _weights(straight):
        return "byte-equal"
    bench.trained("straight again")
    if _weights(bench.run_folder("straight again")) != _weights(straight):
        raise NotHere("two runs that went straight differ as well: this device does not compute the same twice")
    raise RuntimeError("the weights of a resumed run are not byte-equal to those of two that went straight")


def _last_checkpoint(run: RunFolder) -> Path:
    return run.checkpoint_folder / f"step-{run.saved_step:08d}"


def _weights(run: RunFolder) -> bytes:
    return (_last_checkpoint(run) / "model.safetensors").read_bytes()


def _precision(bench: Bench, device: torch.device, precision: Precision) -> str:
    if reason := lacking(device, precision):
        raise NotHere(reason)
    return _compared(bench, _tried(bench, precision.value, precision=precision))


def _compile(bench: Bench) -> str:
    return _compared(bench, _tried(bench, "compiled", compile=True))


def _tried(bench: Bench, name: str, **changes: Any) -> Record:
    """A run with something that Apple's GPU may lack."""
    from torch._dynamo.exc import TorchDynamoException

    try:
        return bench.trained(name, **changes)
    except (NotImplementedError, TorchDynamoException) as error:
        if bench.device != "mps":
            raise
        raise NotHere(f"MPS cannot do it: {error}") from error


def _compared(bench: Bench, record: Record) -> str:
    """A run that should end near the one on the CPU in float32."""
    wanted, found = bench.plain(CPU).loss, record.loss
    skipped = f", {record.skipped_steps} steps skipped" if record.skipped_steps else ""
    if not math.isclose(found, wanted, rel_tol=_CLOSE):
        raise RuntimeError(f"loss {found:.4f}, but {wanted:.4f} on the CPU in float32{skipped}")
    return f"loss {found:.4f} (CPU, float32: {wanted:.4f}){skipped}"


def _data_parallel(bench: Bench) -> str:
    backend, record = trained_by_two(bench)
    return f"{backend}: {_compared(bench, record)}"
