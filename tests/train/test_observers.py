from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from oelm.base.errors import StorageError
from oelm.config.record import StepEvent, ValidationEvent
from oelm.train.observers import LogFile, TensorBoard


def step_event(step: int, loss: float) -> StepEvent:
    times = {"seconds": 1.0, "step_seconds": 0.1, "tokens_per_second": 10.0}
    return StepEvent(step=step, tokens=step, loss=loss, lr=1e-3, gradient_norm=1.0, **times)


def validation(step: int, loss: float) -> ValidationEvent:
    return ValidationEvent(step=step, tokens=step, loss=loss, measures={"loss": loss, "perplexity": 9.0}, seconds=1.0)


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    board = EventAccumulator(str(folder)).Reload()
    return [(event.step, round(event.value, 4)) for event in board.Scalars(tag)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of tensorboard's reader
def test_tensorboard_reads_what_was_written_and_forgets_what_a_crash_left(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path, start=0)
    for step in (5, 10, 15):
        board(step_event(step, loss=step / 10))
    board(validation(10, 2.5))
    board(validation(15, 2.0))
    board.close()
    resumed = TensorBoard(tmp_path, start=10)  # the checkpoint of step 10 was the last
    resumed(step_event(15, loss=7.0))
    resumed.close()
    assert scalars(tmp_path, "train/loss") == [(5, 0.5), (10, 1.0), (15, 7.0)]
    assert scalars(tmp_path, "validation/loss") == [(10, 2.5)]
    assert scalars(tmp_path, "train/lr")[0] == (5, 0.001)


def test_a_refused_write_names_the_fix(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    log = LogFile(tmp_path / "train.log")
    log.close()
    log._file = full.open("ab")
    with pytest.raises(StorageError, match=r"No space left on device.*free space"):
        log.write("a line")
    log.close()
    with pytest.raises(StorageError):
        TensorBoard(full / "tensorboard", start=0)
