"""One tree of errors. Each says what is wrong and what to do; the command line prints it in one line, exit code 2."""


class OelmError(Exception):
    """Something the user can fix: `problem` says what is wrong and where, `fix` what to do about it."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem.rstrip('.')}. Fix: {fix.rstrip('.')}.")
        self.problem = problem
        self.fix = fix


class ConfigError(OelmError):
    """A setting is unknown, of the wrong type, or impossible beside the others."""


class DataError(OelmError):
    """A corpus or token file is missing, empty, damaged or too small."""


class CheckpointError(OelmError):
    """A run folder or checkpoint cannot be used for what was asked."""


class UnreadableError(OelmError, ValueError):
    """A file is not what its name says: too large, not UTF-8, not JSON, nested too deeply, or no regular file."""


class LostRankError(OelmError):
    """Another process of a data-parallel run is gone; the last checkpoint is intact.

    `speaks` is True in the first process that is left: it says so for all.
    """

    def __init__(self, problem: str, fix: str, *, speaks: bool = False) -> None:
        super().__init__(problem, fix)
        self.speaks = speaks


class StorageError(OelmError):
    """The disk refused a write: full, read-only, or no permission."""


class FreezeError(OelmError):
    """A freezing plan matches nothing, or a frozen weight moved."""


class DivergedError(OelmError):
    """The loss is no longer a number; the last checkpoint is intact."""


class BenchError(OelmError):
    """A speed or memory measurement could not be made."""
