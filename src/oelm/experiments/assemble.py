"""Where model, task, data and engine meet: one resolved config in, one finished run folder out."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from rich.console import Console

from oelm.base.errors import CheckpointError, ConfigError, DataError
from oelm.base.files import read_json, write_bytes, write_json, write_text
from oelm.base.runtime import Runtime, choose_runtime
from oelm.config.record import FreezeAudit, LayerGeometry, Record
from oelm.config.run import RunConfig
from oelm.data.batches import TokenBatches, ValidationWindows
from oelm.data.tokens import TokenFolder
from oelm.method.cost import always_frozen
from oelm.method.freezing import frozen_names
from oelm.method.weights import Weight
from oelm.model.gpt import GPT
from oelm.model.initialise import initialise, measure_geometry
from oelm.model.ledger import count_flops, count_weights, weight_table
from oelm.tasks.language_modelling import LanguageModelling
from oelm.train import audit, record
from oelm.train.checkpoint import Checkpoints, Progress, load_weights
from oelm.train.engine import Engine, weight_dtype
from oelm.train.folder import RunFolder
from oelm.train.loop import train
from oelm.train.provenance import environment, run_manifest
from oelm.train.stopping import stop_on_signal
from oelm.train.watch import watching


def run(config: RunConfig, folder: Path, *, resume: bool, console: Console) -> Record | None:
    """Train what the config says into `folder`; the record is returned to the leading process, None to the others."""
    began = time.perf_counter()
    runtime = choose_runtime(config.machine.device)
    _require_processes(config, runtime)
    files, data = RunFolder(folder), open_data(config)
    task = language_modelling(config, data)
    table = weight_table(config.model, config.method)
    frozen_names(config.method.plan, table, 0, config.train.steps)  # matching nothing is refused before any work
    with _processes(runtime), contextlib.ExitStack() as held:
        _leader_first(runtime, lambda: held.enter_context(files.opened(config, resume=resume)))
        model = build_model(config)
        geometry = measure_geometry(model)
        engine = _engine(config, model, table, runtime)
        checkpoints = Checkpoints(files.checkpoint_folder, config.fingerprint)
        _leader_first(runtime, lambda: _opening_files(config, files, checkpoints, model, data, runtime))
        progress = Progress()
        if checkpoints.steps():
            moments, progress = checkpoints.load_latest(model)
            engine.set_moments(moments)
        progress.wall_seconds += time.perf_counter() - began
        with stop_on_signal() as stop, watching(config, files, progress, runtime, console) as watch:
            train(
                engine,
                task,
                config.method.plan,
                config,
                progress,
                events=watch.events,
                checkpoints=checkpoints,
                emit=watch.emit,
                stop=stop,
            )
            if not runtime.leads:
                return None
            evidence = _audit(config, files, model, table)
            return _finish(config, files, progress, data, runtime, geometry, evidence, watch.sessions)


def open_data(config: RunConfig) -> TokenFolder:
    """The token files, refused if they are not those that the config was resolved with."""
    data = TokenFolder.open(Path(config.data.folder))
    if data.manifest.digest != config.data.digest:
        raise DataError(
            f"{config.data.folder} has changed since this run was configured",
            "prepare the same data again, or start a new run with another --out-dir",
        )
    return data


def language_modelling(config: RunConfig, data: TokenFolder) -> LanguageModelling:
    """The task of our GPT."""
    context, valid = config.model.context, data.manifest.valid
    return LanguageModelling(
        TokenBatches(data.train, context=context, seed=config.seed),
        ValidationWindows(data.valid, context=context, limit=config.train.validation_sequences),
        sequences_per_step=config.train.sequences_per_step,
        validation_batch=config.train.batch_size,
        bytes_per_token=valid.text_bytes / valid.tokens,
    )


def build_model(config: RunConfig) -> GPT:
    """The model of a run, initialised from its seed."""
    model = _empty_model(config)
    initialise(model, config.seed)
    return model


def _empty_model(config: RunConfig) -> GPT:
    return GPT(config.model, config.method).to(weight_dtype(config.train.precision))


def load_run(folder: Path, which: str = "last") -> tuple[GPT, RunFolder]:
    """The trained model of a run folder, from its `last` or its `best` checkpoint."""
    files = RunFolder(folder)
    if not files.config_file.is_file():
        raise CheckpointError(f"{folder} is not a run folder (no config.yaml)", "give the --out-dir of a training run")
    config = files.config()
    found = sorted(files.checkpoint_folder.glob("best-*" if which == "best" else "step-*"))
    if not found:
        raise CheckpointError(f"{folder} has no {which} checkpoint yet", "train it until its first checkpoint")
    model = _empty_model(config)
    load_weights(model, found[-1])
    return model.eval(), files


def _require_processes(config: RunConfig, runtime: Runtime) -> None:
    """The config says how the global batch is shared out; other processes than those would train on another one."""
    if config.train.processes != runtime.world:
        raise ConfigError(
            f"the config is for {config.train.processes} processes and there are {runtime.world}",
            f"start it with torchrun --nproc-per-node {config.train.processes}, or give --data and the other settings "
            "instead of --config",
        )


def _engine(config: RunConfig, model: GPT, table: tuple[Weight, ...], runtime: Runtime) -> Engine:
    return Engine(
        model,
        table,
        config.optim,
        runtime,
        precision=config.train.precision,
        accumulate=config.train.accumulate,
        seed=config.seed,
        layer_lr=config.method.extras.layer_lr,
        compile_model=config.machine.compile,
    )


def _opening_files(
    config: RunConfig, files: RunFolder, checkpoints: Checkpoints, model: GPT, data: TokenFolder, runtime: Runtime
) -> None:
    """Manifest, tokenizer and digests of a run that has no checkpoint yet; a resumed one finds its own."""
    checkpoints.open()
    if not checkpoints.steps():
        write_json(files.manifest_file, run_manifest(config, data.manifest, runtime))
        write_bytes(files.tokenizer_file, data.tokenizer_path.read_bytes())
        audit.write_start(files.audit_file, model)


def _leader_first(runtime: Runtime, act: Callable[[], object]) -> None:
    """The leading process acts while the others wait; if it cannot, it says why and all end together."""
    if runtime.world == 1:
        act()
        return
    done = torch.zeros(1, device=runtime.device)
    try:
        if runtime.leads:
            act()
            done.fill_(1)
    finally:
        dist.all_reduce(done)
    if not done.item():
        sys.exit(2)


def _audit(config: RunConfig, files: RunFolder, model: GPT, table: tuple[Weight, ...]) -> FreezeAudit:
    """Compare the model with its digests from before the first step."""
    plan, steps = config.method.plan, config.train.steps
    before = audit.read_start(files.audit_file)
    return audit.audit(before, model, frozen_names(plan, table, 0, steps), always_frozen(plan, table, steps))


def _finish(
    config: RunConfig,
    files: RunFolder,
    progress: Progress,
    data: TokenFolder,
    runtime: Runtime,
    geometry: tuple[LayerGeometry, ...],
    evidence: FreezeAudit,
    sessions: int,
) -> Record:
    """Write the audit, the timing and, last of all, the record."""
    steps, valid = config.train.steps, data.manifest.valid
    events = record.read_events(files.events_file)
    finished = Record(
        task=LanguageModelling.name,
        fingerprint=config.fingerprint,
        config=config,
        result=record.result(events),
        curve=record.curve(events),
        counts=count_weights(config.model, config.method, steps),
        flops=count_flops(config.model, config.method, total_steps=steps, tokens=progress.tokens),
        geometry=geometry,
        timing=record.timing(progress, tokens_per_step=progress.tokens / steps, peak_bytes=runtime.peak_bytes()),
        audit=evidence,
        bytes_per_token=valid.text_bytes / valid.tokens,
        environment=environment(runtime),
        sessions=sessions,
    )
    write_json(files.audit_file, {**read_json(files.audit_file), **evidence.model_dump(mode="json")})
    write_json(files.timing_file, record.timing_stats(finished, progress))
    write_text(files.record_file, finished.model_dump_json(indent=2) + "\n")
    return finished


@contextlib.contextmanager
def _processes(runtime: Runtime) -> Iterator[None]:
    """Join the other processes that torchrun started, if any."""
    if runtime.world == 1:
        yield
        return
    backend = "nccl" if runtime.device.type == "cuda" else "gloo"
    if runtime.device.type == "cuda":
        torch.cuda.set_device(runtime.device)
    dist.init_process_group(backend, timeout=timedelta(minutes=30))
    try:
        yield
    finally:
        dist.destroy_process_group()
