"""Runs that are under way, as far as a page can tell: a config and a log that grows."""

from pathlib import Path

from oelm.config.record import StepEvent, ValidationEvent
from oelm.config.yaml_file import write_yaml
from report.records import make_config


def start(folder: Path, method: str = "oelm", seed: int = 0) -> Path:
    folder.mkdir(parents=True)
    write_yaml(make_config(method, seed), folder / "config.yaml")
    log(folder, 10, 5.0)
    return folder


def log(folder: Path, step: int, loss: float) -> None:
    """One line of training; every tenth is followed by a validation."""
    passed = {"step": step, "tokens": 2048 * step, "seconds": 0.03 * step}
    events: list[StepEvent | ValidationEvent] = [
        StepEvent(**passed, loss=loss, lr=1e-3, gradient_norm=1.0, step_seconds=0.03, tokens_per_second=60_000.0)
    ]
    if step % 100 == 0:
        events.append(ValidationEvent(**passed, loss=loss + 0.1, measures={"loss": loss + 0.1}))
    with (folder / "events.jsonl").open("a") as file:
        file.writelines(event.model_dump_json() + "\n" for event in events)
