import time

import pytest

from oelm.experiments import deadline
from oelm.experiments.deadline import TooLongError, at_most


def test_what_drags_on_is_given_up() -> None:
    began = time.monotonic()
    with pytest.raises(TooLongError, match="not done after 0 s"), at_most(0.1):
        time.sleep(30)
    assert time.monotonic() - began < 10


def test_also_if_it_catches_the_first_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "_AGAIN_SECONDS", 0.1)
    caught = []

    def stubborn() -> None:
        try:
            time.sleep(30)
        except TooLongError as error:
            caught.append(error)
        time.sleep(30)

    with pytest.raises(TooLongError), at_most(0.1):
        stubborn()
    assert len(caught) == 1


def test_what_is_done_is_left_alone() -> None:
    with at_most(0.1):
        pass
    time.sleep(0.2)
