"""Documents as a stream of pieces, so that neither a long file nor a long document has to fit into memory."""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

PIECE_CHARACTERS = 1 << 16
"""Longer documents are cut at white space into pieces of at most this many characters.

Short enough that the pieces of one book keep all cores busy and take little memory, long enough not to matter.
"""

# Byte-level BPE takes a space together with the word behind it, so a cut before the last white space of a run
# leaves the tokens exactly as they would be in the whole document.
_CUT = re.compile(r"[ \n](?=\S)")


class Piece(NamedTuple):
    """A stretch of text; `ends` says that its document ends here, otherwise the next piece goes on."""

    text: str
    ends: bool


def split_documents(chunks: Iterable[str], separator: str) -> Iterator[Piece]:
    """Cut a stream of text at lines equal to `separator`; these lines and the line break before them are dropped."""
    line = re.compile(rf"\n{re.escape(separator)}\r?(?=\n)")  # begins with a fixed text: found twenty times faster
    reach = len(separator) + 4  # a separator line that is not complete yet begins within the last `reach` characters
    buffer, skip = "\n", 1  # each document has a line break before it that is not part of it; at first a virtual one
    for chunk in chunks:
        buffer += chunk
        done = 0
        for match in line.finditer(buffer):
            end = match.start()
            if end > done and buffer[end - 1] == "\r":
                end -= 1
            yield Piece(buffer[done + skip : end], ends=True)
            done, skip = match.end(), 1
        certain = len(buffer) - reach
        if certain > done + skip:
            yield Piece(buffer[done + skip : certain], ends=False)
            done, skip = certain, 0
        buffer = buffer[done:]
    last = re.search(rf"\r?\n{re.escape(separator)}\r?\n?\Z", buffer)
    yield Piece(buffer[skip : last.start() if last else None], ends=True)


def sized(pieces: Iterable[Piece], limit: int = PIECE_CHARACTERS) -> Iterator[Piece]:
    """The same documents in pieces of at most `limit` characters; documents without any text are left out."""
    parts: list[str] = []  # joined only when long enough: adding short strings to a long one again is slow
    length = 0
    begun = False
    for piece in pieces:
        parts.append(piece.text)
        length += len(piece.text)
        if not piece.ends and length <= limit:
            continue
        text = "".join(parts)
        cuts = _cuts(text, limit)
        for start, end in pairwise(cuts):
            if begun or not text[start:end].isspace():
                yield Piece(text[start:end], ends=False)
                begun = True
        rest = text[cuts[-1] :]
        if not piece.ends:
            parts, length = [rest], len(rest)
            continue
        if begun or (rest and not rest.isspace()):
            yield Piece(rest, ends=True)
        parts, length, begun = [], 0, False


def _cuts(text: str, limit: int) -> list[int]:
    """0 and where to cut so that no part is longer than `limit`."""
    cuts = [0]
    while len(text) - cuts[-1] > limit:
        cuts.append(_last_cut(text, cuts[-1], cuts[-1] + limit))
    return cuts


def _last_cut(text: str, start: int, end: int) -> int:
    """At the last white space in the second half of `start` to `end`; at `end` if there is none."""
    for nearest in (max(end - 1000, (start + end) // 2), (start + end) // 2):
        if places := [match.start() for match in _CUT.finditer(text, nearest, end + 1)]:
            return places[-1]
    return end
