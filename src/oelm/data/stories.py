"""The built-in corpus: children's stories made by a small grammar, the same on every machine, of any length.

Story `index` of a `seed` is a pure function of the two. Each story introduces people, things, places, numbers or
promises by name and needs them again 50 to 150 tokens later, so that predicting it well takes attention over that
distance and not only good spelling.
"""

from collections.abc import Iterator
from itertools import count

from oelm.data.story_plots import PLOTS, Acts
from oelm.data.story_words import (
    ANIMALS,
    COLOURS,
    FEELINGS,
    SEASONS,
    THINGS,
    TREATS,
    VISITED,
    WEATHERS,
    Dice,
    Person,
    article,
)

GENERATOR_VERSION = "1"
"""Changes whenever any story does."""

LEAST_WORDS = 110
MOST_WORDS = 190


def story(seed: int, index: int) -> str:
    """One story of about 100 to 220 words in a few paragraphs, without a line break at the end."""
    dice = Dice(seed, index)
    hero, friend, town = dice.person(), dice.person(), dice.town()
    acts = dice.pick(PLOTS)(dice, hero, friend, town)
    acts[0] = [*_beginning(dice, hero, friend, town), *acts[0]]
    acts[-1] = [*acts[-1], *_ending(dice, hero, friend, town)]
    _fill(dice, acts, hero, friend)
    return "\n\n".join(" ".join(act) for act in acts)


def stories(seed: int) -> Iterator[str]:
    """All stories of a seed in order, without end."""
    return (story(seed, index) for index in count())


def _beginning(dice: Dice, hero: Person, friend: Person, town: str) -> list[str]:
    first = dice.pick(
        [
            f"Once upon a time there was {article(hero.trait)} {hero.child} called {hero.name} in {town}.",
            f"In the village of {town} lived {hero.name}, {hero.role}, {article(hero.trait)} {hero.child}.",
            f"{hero.name}, {hero.role}, was the most {hero.trait} {hero.child} in {town}.",
            f"Long ago, in {town}, there lived {article(hero.trait)} {hero.child}. {hero.hers.capitalize()} name "
            f"was {hero.name}.",
            f"Everyone in {town} knew {hero.name}, {hero.role}, because {hero.she} was so {hero.trait}.",
        ]
    )
    second = dice.pick(
        [
            f"{hero.hers.capitalize()} best friend was {friend.name}, {friend.role}.",
            f"{friend.name}, {friend.role}, was {friend.trait} and lived next door.",
            f"{hero.name} had a friend, {friend.name}, who was as {friend.trait} as {friend.role} could be.",
            f"With {friend.name}, {friend.role}, {hero.she} shared every secret.",
        ]
    )
    return [first, second]


def _ending(dice: Dice, hero: Person, friend: Person, town: str) -> list[str]:
    """The end refers to the beginning: the trait, the friend, the village."""
    return [
        dice.pick(
            [
                f"And nobody in {town} ever called {hero.name} {hero.trait} again.",
                f'"You are still the most {hero.trait} {hero.child} in {town}," said {friend.name}, and they laughed.',
                f"That is how {hero.role} and {friend.role} became the best of friends in {town}.",
                f"{hero.name} was as {hero.trait} as ever, but {hero.she} never forgot what {friend.name} had done.",
                f"They still tell this story in {town}, and {friend.name} tells it best.",
                f"Then {hero.name} and {friend.name} walked home to {town} side by side.",
            ]
        )
    ]


def _fill(dice: Dice, acts: Acts, hero: Person, friend: Person) -> None:
    """Lengthen the middle with things that happen on the side, until the story has its length."""
    wanted = dice.between(LEAST_WORDS, MOST_WORDS)
    words = sum(len(sentence.split()) for act in acts for sentence in act)
    middle = acts[1:-1]
    while words < wanted:
        sentence = _on_the_side(dice, hero, friend)
        dice.pick(middle).append(sentence)
        words += len(sentence.split())


def _on_the_side(dice: Dice, hero: Person, friend: Person) -> str:
    """A sentence that changes nothing: weather, food, passers-by, thoughts."""
    someone, other = (hero, friend) if dice.chance(0.5) else (friend, hero)
    animal, colour, place = dice.pick(ANIMALS), dice.pick(COLOURS), dice.pick(VISITED)
    weather, treat, feeling, thing = (
        dice.pick(WEATHERS),
        dice.pick(TREATS),
        dice.pick(FEELINGS),
        dice.pick(THINGS),
    )
    return dice.pick(
        [
            f"There was {weather} over the {place} that day.",
            f"{article(colour).capitalize()} {animal} sat near the {place} and watched them.",
            f"{someone.name} ate {treat} and felt {feeling}.",
            f'"Do you hear the {animal}?" asked {someone.name}. "No, it is only the {weather}," said {other.name}.',
            f"A man with {article(thing)} passed by and asked the way to the {place}.",
            f"The {weather} stopped as suddenly as it had begun.",
            f"{someone.name} dreamt of {article(colour)} {thing} that could talk.",
            f"Near the {place} two children were fighting about {article(thing)}.",
            f"{other.name} told {someone.name} that {other.she} felt {feeling}.",
            f"Somebody had painted the door of the {place} {colour}.",
            f"It was {dice.pick(SEASONS)}, and the air smelled of {treat}.",
            f"{someone.name} was {feeling}, although {someone.she} did not know why.",
            f"An old woman sold {treat} at the {place} and sang about {article(animal)}.",
            f"The bell of the {place} rang, and the {animal} ran away.",
            f'"I do not like {weather}," said {someone.name}, and {other.name} agreed.',
            f"{someone.name}'s mother called {someone.her} to dinner, and there were {treat}.",
            f"They saw {article(animal)} chase {article(dice.pick(ANIMALS))} across the {place}.",
            f"At night {someone.name} lay awake and listened to the {weather}.",
            f"{other.name} found {article(colour)} {thing} on the road, but it belonged to the {dice.pick(VISITED)}.",
            f"Because of the {weather}, the {place} was closed.",
            f"{someone.name} asked {other.name} for some {treat}, and {other.name} shared them gladly.",
            f"The {animal} and the {colour} {thing} were all that anybody talked about at the {place}.",
            f"{someone.name} helped to sweep the {place} and was paid in {treat}.",
            f"For a moment everything was quiet, even the {animal}.",
        ]
    )
