import pytest

from oelm.base import errors
from oelm.base.errors import OelmError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OelmError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_one_line_that_ends_with_the_fix(kind: type[OelmError]) -> None:
    error = kind("the corpus is empty.", "give another")
    assert str(error) == "the corpus is empty. Fix: give another."
    assert isinstance(error, OelmError)
    assert (error.problem, error.fix) == ("the corpus is empty.", "give another")
