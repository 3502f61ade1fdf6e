import hashlib
import re
from itertools import islice

import pytest

from oelm.data.stories import stories, story
from oelm.data.story_words import NUMBERS, article, counted, singular

FIRST = """
Everyone in Thornton knew Olga, the gardener's daughter, because she was so impatient. With Josie, the
ferryman's daughter, she shared every secret. One day her grandfather gave her a black ring. Because she was
afraid that thieves might come, Olga hid the black ring under the garden bench. Only Josie was told. "If you
ever forget, say pink frog," Josie whispered.

Then a long autumn came, and Olga thought of other things. A man with a button passed by and asked the way
to the dairy. Josie's mother called her to dinner, and there were chestnuts. They saw a duck chase a
hedgehog across the garden.

When her grandfather asked, "Where is the black ring?" Olga could not remember. Olga ran to Josie and said,
"Pink frog!" Josie laughed and led her straight to the spot. There, under the garden bench, lay the black
ring, just as Olga had left it. And nobody in Thornton ever called Olga impatient again.
"""
SHA_OF_1000 = "cfa8b17c2566d6a656f104526f9287327257ca171e97ced6df46cb73e35bc6f9"


def test_the_first_story_never_changes():
    assert story(0, 0) == "\n\n".join(" ".join(part.split()) for part in FIRST.split("\n\n"))


def test_a_thousand_stories_never_change():
    text = "\n".join(islice(stories(0), 1000))
    assert hashlib.sha256(text.encode()).hexdigest() == SHA_OF_1000


def test_a_story_depends_on_seed_and_index_only():
    assert list(islice(stories(5), 20))[13] == story(5, 13)
    assert story(5, 13) != story(6, 13)


def test_length_and_characters():
    texts = list(islice(stories(1), 2000))
    words = [len(text.split()) for text in texts]
    assert 100 <= min(words) <= max(words) <= 220
    assert all(text.isascii() for text in texts)
    assert not any(re.search(r"  | [,.?!]|\ba [aeiou]|\{|\}|\bNone\b", text) for text in texts)


@pytest.mark.slow
def test_ten_megabytes_without_a_duplicate():
    seen, size = set(), 0
    for text in stories(2):
        digest = hashlib.sha256(text.encode()).digest()
        assert digest not in seen
        seen.add(digest)
        size += len(text)
        if size > 10_000_000:
            break


def test_the_end_needs_names_from_the_beginning():
    """In nearly every story the last paragraph repeats a two-word thing, place or name of the first one."""
    telling = 0
    for text in islice(stories(3), 300):
        first, *_, last = text.split("\n\n")
        names = set(re.findall(r"(?<=[a-z] )[A-Z][a-z]+", first))
        telling += len(names & set(re.findall(r"[A-Z][a-z]+", last))) >= 2
    assert telling > 270


def test_what_is_counted_adds_up():
    number = "|".join(sorted(NUMBERS[1:], key=len, reverse=True))
    sums = 0
    for text in islice(stories(4), 2000):
        had = re.search(rf"had ({number}) \w+ in an? ", text)
        if had is None:
            continue
        given = re.search(rf"gave ({number}) \w+ to", text)
        gift = re.search(rf"gave (?:her|him) ({number}) \w+\.", text)
        left = re.search(rf"counted: ({number}) \w+ of the ({number})", text)
        values = [NUMBERS.index(match[1]) for match in (had, given, gift, left)]
        assert values[0] == sum(values[1:])
        assert left[2] == had[1]
        sums += 1
    assert sums > 100


def test_the_chain_of_trades_is_told_again_as_it_was():
    chains = 0
    for text in islice(stories(5), 1000):
        if " had nothing but " not in text:
            continue
        first, last = text.split("\n\n")[0], text.split("\n\n")[-1]
        things = re.search(r"nothing but an? (\w+ \w+)", first)[1]
        assert f"First I had the {things}" in last
        assert re.search(r"and I have the (\w+ \w+)", last)[1] in first
        chains += 1
    assert chains > 50


@pytest.mark.parametrize(
    ("plural", "one"),
    [("cherries", "cherry"), ("pies", "pie"), ("potatoes", "potato"), ("peaches", "peach"), ("radishes", "radish"),
     ("cookies", "cookie"), ("plums", "plum"), ("roses", "rose")],
)  # fmt: skip
def test_singular(plural, one):
    assert singular(plural) == one


def test_small_words():
    assert [article("old hat"), article("red hat"), article("honest boy")] == [
        "an old hat",
        "a red hat",
        "an honest boy",
    ]
    assert [counted(1, "berries"), counted(3, "berries"), counted(0, "berries")] == [
        "one berry",
        "three berries",
        "no berries",
    ]
