"""One run from beginning to end: a resolved config in, a finished run folder out."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from oelm.base.console import Console
from oelm.base.errors import CheckpointError, ConfigError, LostRankError
from oelm.base.files import read_json, write_bytes, write_json, write_text
from oelm.base.runtime import Runtime, choose_runtime, require_memory, world_from_environment
from oelm.config.model import GPTConfig
from oelm.config.record import Evaluation, FreezeAudit, Record, RunState, sealed
from oelm.config.run import RunConfig
from oelm.evaluate.evaluation_sets import evaluate_sets
from oelm.experiments.ranks import joined, restarted
from oelm.experiments.subjects import Subject, require_whole_data, subject_of, with_found_data
from oelm.method.cost import always_frozen, weight_counts
from oelm.method.freezing import frozen_names
from oelm.model.ledger import weight_table
from oelm.tasks.task import LabelledTask, answer_entropy
from oelm.train import audit, run_record
from oelm.train.checkpoint import Checkpoints, Progress, load_weights
from oelm.train.engine import Engine
from oelm.train.folder import RunFolder, has_events
from oelm.train.loop import train
from oelm.train.loss_scale import LossScale
from oelm.train.observers import LogFile
from oelm.train.provenance import environment, run_manifest
from oelm.train.stopping import StopRequest, stop_on_signal
from oelm.train.watch import Watch, watching


def run(config: RunConfig, folder: Path, *, resume: bool, console: Console | None = None) -> Record | None:
    """Train what the config says into `folder`; the record is returned to the leading process, None to the others."""
    began, files, console = time.perf_counter(), RunFolder(folder), console or Console()
    start_up = partial(files.start_up, config, leads=world_from_environment()[0] == 0)
    with start_up():
        runtime = choose_runtime(config.machine.device)
        _require_processes(config, runtime)
        _require_room(config, runtime)
        read = with_found_data(config, folder)
        subject = subject_of(read)
        frozen_names(config.method.plan, subject.table, 0, config.train.steps)  # no match is refused before any work
    resume = resume or restarted()
    with joined(runtime) as peers, contextlib.ExitStack() as held:
        with start_up():
            _leader_first(runtime, lambda: held.enter_context(files.opened(config, resume=resume)))
            _leader_first(runtime, lambda: require_whole_data(read))
            engine = engine_of(config, subject, runtime)
            held.callback(engine.release)
            checkpoints = Checkpoints(files.checkpoint_folder, config.fingerprint)
            _leader_first(runtime, lambda: _opening_files(config, files, checkpoints, subject, runtime, console))
            progress = _progress(files, checkpoints, subject, engine)
        progress.wall_seconds += time.perf_counter() - began
        held.enter_context(_noting_the_lost(config, files, runtime))
        with stop_on_signal() as stop, watching(config, files, progress, runtime, console, stop) as watch:
            with peers.watched():
                _train(config, subject, engine, checkpoints, progress, watch, stop)
            if not runtime.leads:
                return None
            peak_bytes = runtime.peak_bytes()  # of training: evaluation comes later
            evidence = _audit(config, files, subject)
            evaluations = _evaluate(engine, subject, checkpoints, progress)
            return _finish(config, files, progress, subject, runtime, peak_bytes, evidence, evaluations, watch.sessions)


def _train(
    config: RunConfig,
    subject: Subject,
    engine: Engine,
    checkpoints: Checkpoints,
    progress: Progress,
    watch: Watch,
    stop: StopRequest,
) -> None:
    train(
        engine,
        subject.task,
        config.method.plan,
        config,
        progress,
        events=watch.events,
        checkpoints=checkpoints,
        emit=watch.emit,
        stop=stop,
    )


@contextlib.contextmanager
def _noting_the_lost(config: RunConfig, files: RunFolder, runtime: Runtime) -> Iterator[None]:
    """Where the leading process is the lost one, the first that is left writes into state.json what has happened."""
    try:
        yield
    except LostRankError as error:
        if error.speaks and not runtime.leads:
            files.note_end(config, RunState.INTERRUPTED, str(error))
        raise


def _require_processes(config: RunConfig, runtime: Runtime) -> None:
    """The config divides the global batch among its processes; another number of them would train on another batch."""
    if config.train.processes != runtime.world:
        raise ConfigError(
            f"the config is for {config.train.processes} processes and there are {runtime.world}",
            f"start it with torchrun --nproc-per-node {config.train.processes}, or give --data and the other settings "
            "instead of --config",
        )


def _require_room(config: RunConfig, runtime: Runtime) -> None:
    """Refuse, before anything is built, a model or on a CPU a batch that cannot fit: two bytes for each layer's input.

    What needs more than that at least may still not fit.
    """
    model = config.model
    if not isinstance(model, GPTConfig):
        return
    weights = 4 * sum(weight.count for weight in weight_table(model, config.method) if weight.stored)
    require_memory(weights, "this model")
    if runtime.device.type == "cpu":
        inputs = 2 * config.train.batch_size * model.context * model.width * model.layers
        require_memory(weights + inputs, f"training it with --batch-size {config.train.batch_size}")


def engine_of(config: RunConfig, subject: Subject, runtime: Runtime) -> Engine:
    """The engine that trains what the config describes."""
    if config.machine.checkpoint_activations:
        subject.model.gradient_checkpointing_enable()  # type: ignore[operator]  # ours and transformers' alike
    return Engine(
        subject.model,
        subject.table,
        config.optim,
        runtime,
        precision=config.train.precision,
        accumulate=config.train.accumulate,
        seed=config.seed,
        layer_lr=config.method.extras.layer_lr,
        query_key_lr=config.method.extras.query_key_lr,
        compile_model=config.machine.compile,
    )


def _opening_files(
    config: RunConfig, files: RunFolder, checkpoints: Checkpoints, subject: Subject, runtime: Runtime, console: Console
) -> None:
    """Manifest, tokenizer and digests of a run that has no checkpoint yet; a resumed one must have its own."""
    checkpoints.open()
    if checkpoints.steps():
        notes = checkpoints.settle(files.events_file)
        if subject.evaluation_sets:
            checkpoints.require_best()
        expected = checkpoints.latest_progress().audit_digest
        notes += audit.restore_start(files.audit_file, subject.model, expected)
        _say(notes + _restore_tokenizer(files, subject), files, console)
        return
    write_json(files.manifest_file, run_manifest(config, subject.data, runtime))
    if subject.tokenizer is not None:
        write_bytes(files.tokenizer_file, subject.tokenizer)
    audit.write_start(files.audit_file, subject.model)


def _restore_tokenizer(files: RunFolder, subject: Subject) -> list[str]:
    """The run's tokenizer is a copy of the data's, whose digest has just been checked."""
    path, own = files.tokenizer_file, subject.tokenizer
    if own is None or (path.is_file() and path.read_bytes() == own):
        return []
    write_bytes(path, own)
    return [f"{path.name} was not the one that the data was made with; copied again"]


def _say(notes: Sequence[str], files: RunFolder, console: Console) -> None:
    """On the console and in train.log."""
    if notes:
        with contextlib.closing(LogFile(files.log_file)) as log:
            for note in notes:
                console.print(note, highlight=False, markup=False, soft_wrap=True)
                log.write(note)


def _progress(files: RunFolder, checkpoints: Checkpoints, subject: Subject, engine: Engine) -> Progress:
    """The progress so far; a resumed run gets its weights and moments back."""
    if not checkpoints.steps():
        return Progress(audit_digest=audit.start_digest(files.audit_file))
    moments, progress = checkpoints.load_latest(subject.model)
    engine.set_moments(moments)
    if progress.loss_scale is not None:
        engine.loss_scale = LossScale(**progress.loss_scale)
    return progress


def _leader_first(runtime: Runtime, act: Callable[[], object]) -> None:
    """The leading process acts while the others wait; if it fails, all exit together."""
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


def _audit(config: RunConfig, files: RunFolder, subject: Subject) -> FreezeAudit:
    """Compare the model with its digests from before the first step."""
    plan, steps, table = config.method.plan, config.train.steps, subject.table
    before = audit.read_start(files.audit_file)
    return audit.audit(before, subject.model, frozen_names(plan, table, 0, steps), always_frozen(plan, table, steps))


def _evaluate(engine: Engine, subject: Subject, checkpoints: Checkpoints, progress: Progress) -> tuple[Evaluation, ...]:
    """The evaluation sets, read once: with the last weights and with the best ones, which the model is left with."""
    task, sets = subject.task, subject.evaluation_sets
    if not isinstance(task, LabelledTask) or not sets:
        return ()
    last = evaluate_sets(engine.infer, task, sets, "last", progress.step)
    if progress.best_step == progress.step:
        return (*last, *(row.model_copy(update={"checkpoint": "best"}) for row in last))
    load_weights(subject.model, checkpoints.best())
    return (*last, *evaluate_sets(engine.infer, task, sets, "best", progress.best_step))


def _finish(
    config: RunConfig,
    files: RunFolder,
    progress: Progress,
    subject: Subject,
    runtime: Runtime,
    peak_bytes: int,
    evidence: FreezeAudit,
    evaluations: tuple[Evaluation, ...],
    sessions: int,
) -> Record:
    """Write the audit, the timing and, last of all, the record."""
    steps = config.train.steps
    _require_events(files, progress)
    events = run_record.read_events(files.events_file)
    finished = Record(
        task=subject.task.name,
        measures=subject.task.measures,
        fingerprint=config.fingerprint,
        config=config.without_places(),
        result=run_record.result(events, config.best_by),
        curve=run_record.curve(events),
        counts=weight_counts(config.method.plan, subject.table, steps),
        flops=subject.flops(progress.tokens),
        geometry=subject.geometry,
        timing=run_record.timing(progress, tokens_per_step=progress.tokens / steps, peak_bytes=peak_bytes),
        audit=evidence,
        evaluations=evaluations,
        bytes_per_token=subject.bytes_per_token,
        answer_entropy=answer_entropy(subject.task),
        environment=environment(runtime),
        sessions=sessions,
        skipped_steps=progress.skipped_steps,
    )
    write_json(files.audit_file, {**read_json(files.audit_file), **evidence.model_dump(mode="json")})
    write_json(files.timing_file, run_record.timing_stats(finished, progress))
    finished = sealed(finished)
    write_text(files.record_file, finished.model_dump_json(indent=2) + "\n")
    return finished


def _require_events(files: RunFolder, progress: Progress) -> None:
    """Refuse to write a record from an incomplete event log."""
    if not has_events(files.events_file, progress.events_bytes, progress.events_digest):
        raise CheckpointError(
            f"{files.events_file} was changed by somebody else while the run was training",
            "put it back from a copy and resume, or start over in another --out-dir",
        )
