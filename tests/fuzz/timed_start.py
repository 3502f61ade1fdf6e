"""`oelm ARGUMENTS` with the CPU seconds that each check takes: python -m fuzz.timed_start FILE ARGUMENTS.

It imports nothing that `oelm train` would not.
"""

import atexit
import json
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from oelm.cli.main import main
from oelm.experiments import assemble, subjects
from oelm.train import audit, checkpoint

CHECKS: list[tuple[Any, str]] = [
    (subjects, "require_whole"),
    (checkpoint, "damage_of"),
    (checkpoint, "_write_digests"),
    (checkpoint, "has_events"),
    (assemble, "has_events"),
    (audit, "restore_start"),
    (audit, "start_digest"),
]
"""Digests of tokens and tokenizer, checkpoints, events and freeze audit; none of them calls another one."""


def timed(function: Callable[..., Any], name: str, spent: dict[str, float]) -> Callable[..., Any]:
    """The same function, which adds its seconds to `spent`."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        began = time.process_time()
        try:
            return function(*arguments)
        finally:
            spent[name] = spent.get(name, 0.0) + time.process_time() - began

    return call


if __name__ == "__main__":
    file, seconds = Path(sys.argv.pop(1)), dict[str, float]()
    for place, check in CHECKS:
        setattr(place, check, timed(getattr(place, check), check, seconds))
    atexit.register(lambda: file.write_text(json.dumps(seconds)))
    main()
