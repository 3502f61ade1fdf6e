"""The folder of one run: config, events, state with heartbeat, lock, log and record.

config.yaml  events.jsonl  state.json  run.lock  checkpoint/  tensorboard/  train.log  manifest.json
freeze_audit.json  timing_stats.json  record.json (written last: it exists = the run is done)

Whoever starts runs adds claim.json, claim.lock and console.log; a stop.request asks the run to save and end.
"""

import hashlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from oelm.base.errors import CheckpointError, OelmError, StorageError
from oelm.base.files import open_regular, read_json, refusing_storage, sweep_leftovers, write_text
from oelm.base.locks import FileLock
from oelm.config.record import Event, Record, RunState, StateFile, opened
from oelm.config.run import RunConfig
from oelm.config.settings import flattened, parse
from oelm.config.yaml_file import read_yaml, write_yaml
from oelm.train.stopping import StopRequest

HEARTBEAT_SECONDS = 5.0
_LOOK_SECONDS = 0.5
"""Looking whether a folder is in use holds its lock for an instant: that is no reason to refuse a run."""
_STOP_LOOK_SECONDS = 0.5
"""How often a run looks whether it is asked to stop."""


class RefusedRunError(CheckpointError):
    """The folder holds, or another process is writing, something that this run must not touch; nothing was changed."""


def stop_request(folder: Path) -> Path:
    """A file that asks to stop: in a run's folder that run, in a study's folder every coordinator."""
    return folder / "stop.request"


class _Inside:
    """A path in the folder, made when it is asked for: a status of a thousand runs asks for few of them."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "RunFolder", _kind: type) -> Path:
        return folder.path / self._name


class RunFolder:
    """Paths and files of a run; only the leading process writes."""

    config_file = _Inside("config.yaml")
    events_file = _Inside("events.jsonl")
    state_file = _Inside("state.json")
    record_file = _Inside("record.json")
    manifest_file = _Inside("manifest.json")
    audit_file = _Inside("freeze_audit.json")
    timing_file = _Inside("timing_stats.json")
    checkpoint_folder = _Inside("checkpoint")
    tensorboard_folder = _Inside("tensorboard")
    log_file = _Inside("train.log")
    tokenizer_file = _Inside("tokenizer.json")
    lock_file = _Inside("run.lock")
    console_file = _Inside("console.log")
    """Everything that the run's processes printed, where a launcher started them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def finished(self) -> bool:
        """True if the record is there."""
        return self.record_file.is_file()

    @property
    def has_checkpoint(self) -> bool:
        """True if there is something to resume from."""
        return any(self.checkpoint_folder.glob("step-*"))

    @property
    def saved_step(self) -> int:
        """The step of the last checkpoint; 0 without one."""
        return max((int(path.name.removeprefix("step-")) for path in self.checkpoint_folder.glob("step-*")), default=0)

    def config(self) -> RunConfig:
        """The resolved config; where only the record was kept, as in a repository's results, the one inside it."""
        if self.finished and not self.config_file.is_file():
            return self.record().config
        return read_yaml(RunConfig, self.config_file)

    def record(self) -> Record:
        """The record of a finished run."""
        return opened(read_json(self.record_file), str(self.record_file))

    def state(self) -> StateFile | None:
        """The last state written, if any."""
        return parse(StateFile, read_json(self.state_file), str(self.state_file)) if self.state_file.is_file() else None

    @contextmanager
    def start_up(self, config: RunConfig, *, leads: bool) -> Iterator[None]:
        """Write into state.json why a run could not begin, if its folder is there already: a coordinator reads it."""
        try:
            yield
        except RefusedRunError:
            raise
        except Exception as error:
            with suppress(OelmError):  # the error itself matters more
                if leads and self.config_file.is_file() and self.config().fingerprint == config.fingerprint:
                    self.note_end(config, RunState.FAILED, str(error))
            raise

    def note_end(self, config: RunConfig, state: RunState, reason: str) -> None:
        """Write into state.json how and why the run ended; what was there is kept."""
        last = self.state() or new_state(0, config.train.steps, "none", sessions=0)
        ended = {"state": state, "reason": reason, "heartbeat_at": time.time()}
        write_text(self.state_file, last.model_copy(update=ended).model_dump_json(indent=2) + "\n")

    @contextmanager
    def opened(self, config: RunConfig, *, resume: bool) -> Iterator[None]:
        """Hold the folder for a run of this config, or refuse before anything is lost."""
        with self._locked():
            if self.finished:
                raise RefusedRunError(
                    f"{self.path} holds a finished run", "choose another --out-dir, or see `oelm compare`"
                )
            self.refuse_other(config)
            if self.has_checkpoint and not resume:
                raise RefusedRunError(
                    f"{self.path} holds an unfinished run",
                    "add --resume to continue it, or choose another --out-dir",
                )
            sweep_leftovers(self.path)
            write_yaml(config, self.config_file)
            yield

    def refuse_other(self, config: RunConfig) -> None:
        """A folder with work in it belongs to the config that made it; one without may be taken over."""
        if not (self.has_checkpoint or self.finished):
            return
        existing = self.config()
        if existing.fingerprint != config.fingerprint:
            raise RefusedRunError(
                f"{self.path} holds a run of another configuration: {_difference(existing, config)}",
                "use the same settings to resume it, or choose another --out-dir",
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder: two processes never train one run."""
        lock = FileLock.take(self.lock_file, wait_seconds=_LOOK_SECONDS)
        if lock is None:
            raise RefusedRunError(
                f"another process is training in {self.path}", "wait for it, or choose another --out-dir"
            )
        with lock, self._held_folder():
            yield

    @contextmanager
    def _held_folder(self) -> Iterator[None]:
        """Lock the folder itself as well: run.lock may be deleted by somebody who tidies up, the folder may not.

        Where a network file system locks no folders, run.lock has to do.
        """
        try:
            held = FileLock.take(self.path)
        except (OSError, StorageError):
            yield
            return
        if held is None:
            raise RefusedRunError(
                f"another process is training in {self.path}, though its run.lock was deleted",
                "wait for it, or choose another --out-dir",
            )
        with held:
            yield


def _difference(existing: RunConfig, wanted: RunConfig) -> str:
    """The first setting in which two configs differ, in words."""
    old, new = flattened(existing.numbers()), flattened(wanted.numbers())
    key = next(key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key))
    return f"{key} is {old.get(key)} there and {new.get(key)} here"


def has_events(path: Path, length: int, digest: str) -> bool:
    """Whether a log begins with so many bytes of this digest (of any, where none was kept)."""
    content = path.read_bytes()[:length] if path.is_file() else b""
    return len(content) == length and digest in ("", hashlib.sha256(content).hexdigest())


class EventLog:
    """events.jsonl: appended as training goes, cut back to the checkpoint on resume, so a crash leaves no trace."""

    def __init__(self, path: Path, keep_bytes: int) -> None:
        self._path = path
        self._file = open_regular(path, "ab")
        with refusing_storage(path):
            self._file.truncate(min(keep_bytes, path.stat().st_size))
            self._file.seek(0, os.SEEK_END)
            self._digest = hashlib.sha256(path.read_bytes())

    def append(self, event: Event) -> None:
        """Write one line."""
        line = event.model_dump_json().encode() + b"\n"
        with refusing_storage(self._path):
            self._file.write(line)
            self._file.flush()
        self._digest.update(line)

    def sync(self) -> tuple[int, str]:
        """Force all lines to the disk; returns the length of the file and the digest of its content."""
        with refusing_storage(self._path):
            os.fsync(self._file.fileno())
        return self._file.tell(), self._digest.hexdigest()

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # what a full disk did not take, `append` has complained about
            self._file.close()


def new_state(step: int, steps: int, device: str, *, sessions: int = 1, started_at: float | None = None) -> StateFile:
    """The state of a run in this process, now."""
    now = time.time()
    return StateFile(
        state=RunState.RUNNING,
        step=step,
        steps=steps,
        host=socket.gethostname(),
        pid=os.getpid(),
        device=device,
        started_at=started_at or now,
        heartbeat_at=now,
        sessions=sessions,
    )


class Heart:
    """Rewrites state.json every few seconds from its own thread, so that a long validation is not taken for a crash.

    The same thread looks for a stop.request: how anyone, on any machine, asks the run to save and end.
    """

    def __init__(
        self,
        files: RunFolder,
        state: StateFile,
        stop: StopRequest,
        look: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        self._files = files
        self._state = state
        self._asked = stop
        self._look = look
        """Says how busy the device is."""
        self._elapsed_before = state.elapsed_seconds or 0.0
        self._began = time.time()
        self._changed = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    @property
    def state(self) -> StateFile:
        """The state as last told."""
        return self._state

    def start(self) -> None:
        """Start the thread."""
        self.tell(state=self._state.state)
        self._thread.start()

    def tell(self, *, state: RunState | None = None, reason: str | None = None) -> None:
        """Write the state now."""
        now = time.time()
        changes = {"state": state or self._state.state, "reason": reason, "heartbeat_at": now, **self._look()}
        elapsed = self._elapsed_before + now - self._began
        with self._changed:
            self._state = self._state.model_copy(update={**changes, "elapsed_seconds": elapsed})
            write_text(self._files.state_file, self._state.model_dump_json(indent=2) + "\n")

    def progress(self, **changes: object) -> None:
        """Remember the step and the losses; the next heartbeat writes them."""
        with self._changed:
            self._state = self._state.model_copy(update=changes)

    def stop(self, state: RunState, reason: str | None = None) -> None:
        """Write the final state and end the thread. A full disk must not hide the reason why the run ends."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            self.tell(state=state, reason=reason)
        except OelmError:
            if state is RunState.FINISHED:
                raise

    def _beat(self) -> None:
        while not self._stop.wait(min(_STOP_LOOK_SECONDS, HEARTBEAT_SECONDS)):
            self._look_for_a_request()
            if time.time() - self._state.heartbeat_at >= HEARTBEAT_SECONDS:
                with suppress(OelmError):  # the loop will meet the same disk and say so
                    self.tell(reason=self._state.reason)

    def _look_for_a_request(self) -> None:
        """A request from before this session is not meant for it."""
        with suppress(OSError):
            if self._asked.signal is None and stop_request(self._files.path).stat().st_mtime >= self._began:
                self._asked.signal = signal.SIGTERM
