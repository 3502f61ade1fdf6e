"""The built-in corpus: children's stories made by a small grammar, the same on every machine, of any length.

Story `index` of a `seed` is a pure function of the two. Each story introduces people, things, places, numbers or
promises by name and needs them again 50 to 150 tokens later, so that predicting it well takes attention over that
distance and not only good spelling.
"""

from collections.abc import Iterator
from itertools import count

from oelm.data.story_plots import PLOTS, Acts, Plot
from oelm.data.story_words import (
    ANIMALS,
    COLOURS,
    FAULTS,
    FEELINGS,
    LOOKS,
    NUMBERS,
    OFFICIALS,
    SEASONS,
    THINGS,
    TREATS,
    VISITED,
    WEATHERS,
    Cast,
    Dice,
    article,
)

GENERATOR_VERSION = "1"
"""Changes whenever any story does."""

LEAST_WORDS = 110
MOST_WORDS = 190


def story(seed: int, index: int) -> str:
    """One story of about 100 to 220 words in three paragraphs, without a line break at the end."""
    dice, cast, plot = _started(seed, index)
    opening, *middle, ending = plot(dice, cast)
    acts = [[*_beginning(dice, cast), *opening], *middle, [*ending, _last_sentence(dice, cast)]]
    _lengthen(dice, acts, cast)
    return "\n\n".join(" ".join(act) for act in acts)


def plot_name(seed: int, index: int) -> str:
    """What happens in a story."""
    return _started(seed, index)[2].__name__


def stories(seed: int) -> Iterator[str]:
    """All stories of a seed in order, without end."""
    return (story(seed, index) for index in count())


def _started(seed: int, index: int) -> tuple[Dice, Cast, Plot]:
    dice = Dice(seed, index)
    cast = Cast(dice.person(), dice.person(), dice.town())
    return dice, cast, dice.pick(PLOTS)


def _beginning(dice: Dice, cast: Cast) -> list[str]:
    hero, friend, town = cast.hero, cast.friend, cast.town
    first = dice.pick(
        [
            f"Once upon a time {hero.role} in {town} was {article(hero.trait)} {hero.child} called {hero.name}.",
            f"In the village of {town} lived {hero.name}, {hero.role}, {article(hero.trait)} {hero.child}.",
            f"{hero.name}, {hero.role}, was the most {hero.trait} {hero.child} in {town}.",
            f"Long ago there lived {article(hero.trait)} {hero.child} in {town}: {hero.role}, {hero.name} by name.",
            f"Everyone in {town} knew {hero.name}, {hero.role}, because {hero.she} was so {hero.trait}.",
            f"This is the story of {hero.name}, {hero.role} of {town}, who was known to be {hero.trait}.",
        ]
    )
    second = dice.pick(
        [
            f"{hero.hers.capitalize()} best friend was {friend.name}, {friend.role}.",
            f"{friend.name}, {friend.role}, was {friend.trait} and lived next door.",
            f"{hero.name} had a friend, {friend.name}, who was as {friend.trait} as {friend.role} could be.",
            f"With {friend.name}, {friend.role}, {hero.she} shared every secret.",
            f"{friend.name}, {friend.role}, went everywhere with {hero.her}.",
        ]
    )
    return [first, second]


def _last_sentence(dice: Dice, cast: Cast) -> str:
    """The end refers to the beginning: the trait, the friend, the trades, the village."""
    hero, friend, town = cast.hero, cast.friend, cast.town
    judgement = f"And nobody in {town} ever called {hero.name} {hero.trait} again."
    if hero.trait not in FAULTS:
        judgement = f"And everybody in {town} agreed that {hero.name} was {hero.trait}."
    return dice.pick(
        [
            judgement,
            f'"You are still the most {hero.trait} {hero.child} in {town}," said {friend.name}, and they laughed.',
            f"That is how {hero.role} and {friend.role} became the best of friends in {town}.",
            f"{hero.name} was as {hero.trait} as ever, but {hero.she} never forgot what {friend.name} had done.",
            f"They still tell this story in {town}, and {friend.name} tells it best.",
            f"Then {hero.name} and {friend.name} walked home to {town} side by side.",
            f"When {hero.she} was old, {hero.name} told it to the children of {town} and wrote to {friend.name}.",
        ]
    )


def _lengthen(dice: Dice, acts: Acts, cast: Cast) -> None:
    """Add things that happen on the side to the middle, until the story has its length."""
    wanted = dice.between(LEAST_WORDS, MOST_WORDS)
    words = sum(len(sentence.split()) for act in acts for sentence in act)
    while words < wanted:
        sentence = _on_the_side(dice, cast)
        acts[dice.between(1, len(acts) - 2)].append(sentence)
        words += len(sentence.split())


def _on_the_side(dice: Dice, cast: Cast) -> str:
    """A sentence that changes nothing: weather, food, passers-by, thoughts."""
    return dice.pick((_around_them, _between_them))(dice, cast)


def _around_them(dice: Dice, cast: Cast) -> str:
    animal, colour, place = dice.pick(ANIMALS), dice.pick(COLOURS), dice.pick(VISITED)
    weather, treat, thing = dice.pick(WEATHERS), dice.pick(TREATS), dice.pick(THINGS)
    return dice.pick(
        [
            f"There was {weather} over the {place} that day.",
            f"{article(colour).capitalize()} {animal} sat near the {place} and watched them.",
            f"A man with {article(thing)} passed by and asked the way to the {place}.",
            f"The {weather} stopped as suddenly as it had begun.",
            f"Near the {place} two children were fighting about {article(thing)}.",
            f"Somebody had painted the door of the {place} {colour}.",
            f"It was {dice.pick(SEASONS)}, and the air smelled of {treat}.",
            f"An old woman sold {treat} at the {place} and sang about {article(animal)}.",
            f"The bell of the {place} rang, and the {animal} ran away.",
            f"They saw {article(animal)} chase {article(dice.pick(ANIMALS))} across the {place}.",
            f"Because of the {weather}, the {place} was closed.",
            f"The {animal} and the {colour} {thing} were all that anybody talked about at the {place}.",
            f"For a moment everything was quiet, even the {animal}.",
            f"A cart full of {treat} rolled down to the {place} and lost a wheel.",
            f"The {dice.pick(OFFICIALS)} of {cast.town} complained about the {weather}.",
            f"Far away, behind the {place}, {article(animal)} was calling.",
            f"Some said that {article(colour)} {thing} brought luck, others that it brought {weather}.",
            f"On the road to {cast.town} lay {article(dice.pick(LOOKS))} {thing}, and nobody picked it up.",
        ]
    )


def _between_them(dice: Dice, cast: Cast) -> str:
    one, other = (cast.hero, cast.friend) if dice.chance(0.5) else (cast.friend, cast.hero)
    animal, colour, place = dice.pick(ANIMALS), dice.pick(COLOURS), dice.pick(VISITED)
    weather, treat, feeling, thing = dice.pick(WEATHERS), dice.pick(TREATS), dice.pick(FEELINGS), dice.pick(THINGS)
    return dice.pick(
        [
            f"{one.name} ate {treat} and felt {feeling}.",
            f'"Do you hear the {animal}?" asked {one.name}. "No, it is only the {weather}," said {other.name}.',
            f"{one.name} dreamt of {article(colour)} {thing} that could talk.",
            f"{other.name} told {one.name} that {other.she} felt {feeling}.",
            f"{one.name} was {feeling}, although {one.she} did not know why.",
            f'"I do not like {weather}," said {one.name}, and {other.name} agreed.',
            f"{one.name}'s mother called {one.her} to dinner, and there were {treat}.",
            f"At night {one.name} lay awake and listened to the {weather}.",
            f"{other.name} found {article(colour)} {thing} on the road, but it belonged to the {dice.pick(OFFICIALS)}.",
            f"{one.name} asked {other.name} for some {treat}, and {other.name} shared them gladly.",
            f"{one.name} helped to sweep the {place} and was paid in {treat}.",
            f"As {one.role}, {one.name} knew a lot about {treat}.",
            f'"When I am grown up, I shall live at the {place} with {article(animal)}," said {one.name}.',
            f"{one.name} was too {one.trait} to say so, but {one.she} was {feeling}.",
            f"{one.name} and {other.name} counted {NUMBERS[dice.between(2, 12)]} clouds above the {place}.",
            f"People said that {one.name}, being {one.trait}, would never learn to play the {thing}.",
        ]
    )
