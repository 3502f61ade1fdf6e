import pytest
from hypothesis import given
from hypothesis import strategies as st

from oelm.data.holdout import HeldDocuments, HeldTail, hash_of, plan_holdout, route
from oelm.data.pieces import Piece
from oelm.data.sources import Size


def plan(documents, text_bytes, share=0.1, most=10_000_000, seed=0):
    return plan_holdout(Size(documents, text_bytes), share=share, most_bytes=most, seed=seed)


def split_texts(pieces, how):
    routed = list(route(pieces, how))
    return tuple("".join(piece.text for split, piece in routed if split == name) for name in ("train", "valid"))


@pytest.mark.parametrize(("documents", "held"), [(20, 2), (1000, 100), (24, 2), (21, 2)])
def test_whole_documents_are_held_out_in_the_wanted_number(documents, held):
    how = plan(documents, documents * 100)
    routed = list(route([Piece(str(index), ends=True) for index in range(documents)], how))
    assert sum(split == "valid" for split, _ in routed) == held


def test_at_least_one_document_and_at_most_so_many_bytes():
    assert isinstance(plan(30, 300, share=0.001), HeldDocuments)
    one = [split for split, _ in route([Piece("x", True)] * 30, plan(30, 300, share=0.001))]
    assert one.count("valid") == 1
    capped = [split for split, _ in route([Piece("x", True)] * 1000, plan(1000, 100_000, most=500))]
    assert capped.count("valid") == 5


def test_all_pieces_of_a_document_go_the_same_way():
    pieces = [Piece(f"{document}", ends=part == 2) for document in range(100) for part in range(3)]
    ways = {}
    for split, piece in route(pieces, plan(100, 1000)):
        ways.setdefault(piece.text, set()).add(split)
    assert all(len(way) == 1 for way in ways.values())


def test_the_choice_depends_on_the_seed():
    chosen = [[split for split, _ in route([Piece("x", True)] * 100, plan(100, 100, seed=seed))] for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]


@given(st.integers(0, 10**9), st.integers(0, 2**63 - 1))
def test_hashes_have_64_bits(index, salt):
    assert 0 <= hash_of(index, salt) < 1 << 64


def test_few_documents_hold_out_the_end_at_a_line_break():
    text = "".join(f"line {number}\n" for number in range(100))
    how = plan(1, len(text))
    assert isinstance(how, HeldTail)
    train, valid = split_texts([Piece(text, ends=True)], how)
    assert train + valid == text
    assert train.endswith("\n")
    assert valid.startswith("line ")
    assert 0.05 * len(text) < len(valid) <= 0.1 * len(text) + 1


@pytest.mark.parametrize(
    ("text", "valid"),
    [("one line of many small words", "words"), ("first line\nsecond", "second"), ("nospaceatallinthistext", "xt"),
     ("a\nlast line without a break at all in it\n\n", "last line without a break at all in it\n\n")],
)  # fmt: skip
def test_without_a_fitting_line_break_the_cut_is_elsewhere_but_both_sides_have_text(text, valid):
    train, held = split_texts([Piece(text, ends=True)], plan(1, len(text)))
    assert (train, held) == (text[: -len(valid)], valid)


def test_the_cut_ends_the_document_for_training():
    pieces = [Piece("a " * 50, ends=False), Piece("b " * 50, ends=True)]
    routed = list(route(pieces, plan(1, 200)))
    assert [(split, piece.ends) for split, piece in routed] == [("train", False), ("train", True), ("valid", True)]


def test_a_cut_between_documents_adds_no_document():
    pieces = [Piece("a" * 90, ends=True), Piece("b" * 10, ends=True)]
    assert list(route(pieces, plan(2, 100))) == [("train", pieces[0]), ("valid", pieces[1])]


def test_cut_inside_many_byte_characters():
    text = "☃" * 30
    train, valid = split_texts([Piece(text, ends=True)], plan(1, 90))
    assert train + valid == text
    assert valid
