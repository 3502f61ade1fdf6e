from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oelm.data.pieces import Piece, sized, split_documents
from oelm.data.stories import stories
from oelm.data.tokenizer import train_bpe

SEPARATOR = "<|endoftext|>"


def chunked(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def documents(pieces) -> list[str]:
    found, parts = [], []
    for piece in pieces:
        parts.append(piece.text)
        if piece.ends:
            found.append("".join(parts))
            parts = []
    assert not parts, "the stream stops inside a document"
    return found


@pytest.mark.parametrize("size", [1, 2, 5, 13, 14, 15, 1000])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_documents_are_cut_at_separator_lines_wherever_chunks_end(size, newline):
    text = newline.join(
        [SEPARATOR, "one", "", "more", SEPARATOR, SEPARATOR, f"two {SEPARATOR}", f"{SEPARATOR} x", SEPARATOR, "three"]
    )
    expected = ["", f"one{newline}{newline}more", "", f"two {SEPARATOR}{newline}{SEPARATOR} x", "three"]
    assert documents(split_documents(chunked(text, size), SEPARATOR)) == expected
    assert documents(split_documents(chunked(f"{text}{newline}{SEPARATOR}", size), SEPARATOR)) == expected


def test_a_text_without_separator_is_one_document_as_it_is():
    assert documents(split_documents(["\n a\r\n", "b \n"], SEPARATOR)) == ["\n a\r\nb \n"]
    assert documents(split_documents([], SEPARATOR)) == [""]


@given(
    lines=st.lists(st.sampled_from(["<s>", "<s> ", " <s>", "a", "", "bb", "<s", "s>"]), max_size=12),
    size=st.integers(1, 9),
)
def test_splitting_agrees_with_the_simple_way(lines, size):
    text = "\n".join(lines)
    simple = [[]]
    for line in lines:
        if line == "<s>":
            simple.append([])
        else:
            simple[-1].append(line)
    found = documents(split_documents(chunked(text, size), "<s>"))
    # A separator in the last line is followed by nothing, not even by an empty document.
    expected = ["\n".join(document) for document in simple]
    assert [text for text in found if text] == [text for text in expected if text]


@given(text=st.text("ab \n", max_size=200), sizes=st.integers(1, 50), limit=st.integers(4, 60))
@settings(max_examples=300)
def test_sized_keeps_the_text_and_the_limit(text, sizes, limit):
    fragments = [Piece(part, ends=False) for part in chunked(text, sizes)]
    pieces = list(sized([*fragments, Piece("", ends=True)], limit))
    assert all(len(piece.text) <= limit for piece in pieces)
    if text.strip():
        assert "".join(piece.text for piece in pieces).lstrip() == text.lstrip()
        assert [piece.ends for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    else:
        assert pieces == []


def test_documents_without_text_are_left_out():
    given_pieces = [Piece("", True), Piece(" \n", True), Piece("a", False), Piece("", True), Piece("b", True)]
    assert documents(sized(given_pieces)) == ["a", "b"]


def test_cutting_a_long_document_does_not_change_its_tokens():
    text = "  \n\n".join(islice(stories(0), 40)).replace(". ", ".   ")
    tokenizer = train_bpe(iter([text]), 500)
    pieces = list(sized([Piece(text, ends=True)], 300))
    assert len(pieces) > 50
    whole = tokenizer.encode(text).ids
    assert [token for piece in pieces for token in tokenizer.encode(piece.text).ids] == whole
