"""What a run printed, also while it prints."""

import time
from collections import deque
from collections.abc import Iterator

from oelm.base.errors import CheckpointError
from oelm.experiments.claims import is_claimed
from oelm.experiments.local import console_log
from oelm.experiments.matrix import StudyRun

_POLL_SECONDS = 0.3


def log_lines(run: StudyRun, last: int, *, follow: bool) -> Iterator[str]:
    """The last lines of the log and, to follow it, every line from there on until nobody works on the run any more."""
    path = console_log(run.folder)
    if not path.is_file():
        raise CheckpointError(f"{run.name} has not been started", "see `oelm experiment status`")
    with path.open(encoding="utf-8", errors="replace") as log:
        lines, part = deque[str](maxlen=last), ""
        for text in log:
            part = "" if text.endswith("\n") else text  # the last may be half a line
            if not part:
                lines.append(text.rstrip("\n"))
        yield from lines
        while follow:
            alive = is_claimed(run.folder)  # looked at before reading: what was written until then is not missed
            while text := log.readline():
                part += text
                if part.endswith("\n"):
                    yield part.rstrip("\n")
                    part = ""
            if not alive:
                break
            time.sleep(_POLL_SECONDS)
        if part:
            yield part
