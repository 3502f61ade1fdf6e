"""Who starts runs, by the name that the person gives: this machine (auto, cpu, gpu), SLURM or Ray."""

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from oelm.experiments.launcher import Launcher
from oelm.experiments.local_launcher import local_launcher
from oelm.experiments.ownership import left_behind, read_note
from oelm.experiments.ray_launcher import RayLauncher
from oelm.experiments.resources import Resources
from oelm.experiments.slurm_launcher import AT_ONCE, SlurmLauncher, cancel, queued_jobs


def choose_launcher(
    on: str,
    resources: Resources,
    at_once: int | None,
    threads: int | None,
    *,
    free_gib: float,
    idle_seconds: float,
) -> tuple[Launcher, int]:
    """The launcher, and how many runs a coordinator gives it at a time at most."""
    if on == "slurm":
        return SlurmLauncher(resources), at_once or AT_ONCE
    if on == "ray":
        ray = RayLauncher(resources)
        return ray, at_once or ray.capacity()
    return local_launcher(on, at_once, threads, free_gib=free_gib, idle_seconds=idle_seconds)


def left_in_queue(folders: Sequence[Path]) -> dict[Path, str]:
    """SLURM jobs that wait, or start up, and whose coordinator is gone; none where SLURM is not known."""
    submitted = [folder for folder in folders if (note := read_note(folder)) and note.launcher == "slurm"]
    notes = {folder: note for folder in submitted if (note := left_behind(folder))}
    known = (queued_jobs() if notes and shutil.which("squeue") else None) or {}
    return {folder: note.job for folder, note in notes.items() if note.job in known}


def stop_in_queue(folders: Sequence[Path]) -> Collection[Path]:
    """End such jobs; returns their runs' folders."""
    left = left_in_queue(folders)
    for job in left.values():
        cancel(job)
    return left.keys()
