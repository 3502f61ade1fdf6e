"""The demonstration: a study that comes with the package, small enough for a laptop."""

from pathlib import Path

from rich.console import Console

from oelm.experiments.places import choose_engine
from oelm.experiments.running import run_study
from oelm.experiments.study_file import StudyFile

STUDY = Path(__file__).with_name("quickstart.yaml")


def run_quickstart(out: Path, *, seeds: int, steps: int, at_once: int, console: Console) -> list[Path]:
    """Prepare the corpus, bring all runs to their records and return their folders."""
    every = max(10, steps // 5)  # a short trial should train more than it validates
    overrides = [f"seeds={list(range(seeds))}", f"train.steps={steps}", f"train.validate_every={every}"]
    engine, most = choose_engine("cpu", at_once, None, free_gib=0, idle_seconds=0)
    finished = run_study(StudyFile(STUDY, overrides), out, out / "data", engine, only=(), at_once=most, console=console)
    return list(finished.comparable)
