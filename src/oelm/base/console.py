"""The terminal, for work that goes on: whoever stops reading does not end it, and no text can steer it."""

import os
import re
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.segment import Segment

_UNSHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, which a terminal would obey, and halves of characters, which cannot be written."""


def shown(text: str) -> str:
    r"""The text with what cannot be shown spelt out: an escape character becomes the four characters `\x1b`."""
    return _UNSHOWN.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


class Console(RichConsole):
    """Rich's console with markup off: a name may hold brackets. Styles are given as such, or as `Text`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"markup": False, **settings})

    def on_broken_pipe(self) -> None:
        """Whoever read has gone (`oelm train ... | head`): go on in silence. Rich would end the process here."""
        self.quiet = True
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, (sys.stderr if self.stderr else sys.stdout).fileno())
        os.close(nothing)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        """Rich writes its own escape sequences here; those that came with a text are made visible before."""
        return super()._render_buffer(
            segment if segment.control else Segment(shown(segment.text), segment.style) for segment in buffer
        )
