"""Documents as a stream of pieces, so that neither a long file nor a long document has to fit into memory."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

PIECE_CHARACTERS = 1 << 20
"""Longer documents are cut at white space into pieces of at most this many characters."""

# Byte-level BPE takes a space together with the word behind it, so a cut before the last white space of a run
# leaves the tokens exactly as they would be in the whole document.
_CUT = re.compile(r"[ \n](?=\S)")


class Piece(NamedTuple):
    """A stretch of text; `ends` says that its document ends here, otherwise the next piece goes on."""

    text: str
    ends: bool


def split_documents(chunks: Iterable[str], separator: str) -> Iterator[Piece]:
    """Cut a stream of text at lines equal to `separator`; these lines and the line break before them are dropped."""
    line = re.compile(rf"\r?\n{re.escape(separator)}\r?(?=\n)")
    reach = len(separator) + 4  # a separator line that is not complete yet begins within the last `reach` characters
    buffer, skip = "\n", 1  # each document has a line break before it that is not part of it; at first a virtual one
    for chunk in chunks:
        buffer += chunk
        done = 0
        for match in line.finditer(buffer):
            yield Piece(buffer[done + skip : match.start()], ends=True)
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
    held = ""
    parts: list[str] = []  # joined only when long enough: adding short strings to a long one again and again is slow
    begun = False
    length = 0
    for piece in pieces:
        parts.append(piece.text)
        length += len(piece.text)
        if not piece.ends and length <= limit:
            continue
        held = "".join(parts)
        while len(held) > limit:
            cut = _cut_before(held, limit)
            if begun or not held[:cut].isspace():
                yield Piece(held[:cut], ends=False)
                begun = True
            held = held[cut:]
        if piece.ends:
            if begun or (held and not held.isspace()):
                yield Piece(held, ends=True)
            held, begun = "", False
        parts, length = [held], len(held)


def _cut_before(text: str, limit: int) -> int:
    """Where to cut `text` into at most `limit` characters: at the last white space in the second half, if any."""
    cuts = [match.start() for match in _CUT.finditer(text, limit // 2, limit + 1)]
    return cuts[-1] if cuts else limit
