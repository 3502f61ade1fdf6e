"""The vocabulary of the built-in stories: plain tables, and the dice that pick from them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from oelm.base.streams import stream_seed

T = TypeVar("T")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    """Between bars or line breaks."""
    return tuple(text.replace("\n", "|").split("|"))


GIRLS = _words("""
Ada Agnes Alma Bea Bella Cara Clara Dora Edda Elsa Emmy Flora Greta Hanna Hilda Ida Ines Iris Ivy Jana Josie Karin
Lena Lila Lotte Mabel Mara Mila Mina Nell Nora Olga Opal Petra Polly Rosa Ruby Runa Sally Selma Tess Tilda Una Vera
Wanda Willa Yara Zoe
""")
BOYS = _words("""
Abel Alfie Anton Arlo Basil Ben Bruno Caleb Cyril Dario Edgar Emil Enzo Felix Finn Georg Gus Hal Hugo Igor Ivan
Jasper Jonas Kai Karl Lars Leo Linus Magnus Max Milo Ned Nils Odin Oscar Otto Pablo Quinn Ralf Remy Rufus Sam Silas
Theo Toby Ulf Victor Walter
""")
ONSETS = _words("B Br D F G H J K L M N P R S T V W Y Z")
MIDDLES = _words("abr al amb ard ast ed el en erl if il imb ind ir od ol on orv ub ul um und ur uss")
GIRL_ENDINGS = _words("a ella ina ette y")
BOY_ENDINGS = _words("o in ert us ik")

TRADES = _words("""
baker miller weaver potter fisher tailor farmer blacksmith carpenter shoemaker beekeeper shepherd teacher gardener
ferryman clockmaker innkeeper lamplighter painter bookbinder cook doctor postman sailor
""")
VIRTUES = _words("""
brave curious patient cheerful quiet careful honest gentle clever thoughtful generous polite kind cautious modest
friendly
""")
FAULTS = _words("""
shy clumsy stubborn dreamy lazy proud forgetful noisy restless greedy timid grumpy careless jealous boastful
impatient
""")

COLOURS = _words("red blue green yellow white black brown grey purple orange pink silver golden")
LOOKS = _words("""
small old new broken shiny dusty heavy painted wooden striped round tiny crooked polished rusty carved woollen velvet
cracked speckled long patched secret glass tin copper
""")
THINGS = _words("""
key lantern whistle drum kite boat box bell basket button mirror ring spoon teapot hat scarf coat blanket umbrella
candle compass map book letter coin ribbon doll ball top flute fiddle hammer rope bucket kettle jar bottle feather
shell stone clock cup plate brush comb glove boot belt purse necklace crown flag ladder broom saddle wheel marble
puppet trumpet pencil telescope thimble needle pillow pocketknife spade
""")
TREATS = _words("""
apples pears plums cherries buns pies pancakes eggs turnips carrots onions walnuts chestnuts pumpkins berries cookies
muffins radishes potatoes peaches
""")
KEEPSAKES = _words("pebbles acorns shells buttons marbles feathers coins beads stamps ribbons")
FLOWERS = _words("roses tulips poppies beans peas sunflowers lilies cabbages pansies leeks daisies marigolds")
ANIMALS = _words("""
fox hare mouse owl crow goose duck goat donkey cat dog badger squirrel hedgehog otter sparrow frog robin lamb pony
heron mole
""")
PET_NAMES = _words("Pip Bramble Tuft Moss Socks Pepper Button Biscuit Clover Smudge Nettle Thistle")

HIDING_PLACES = _phrases("""under the stone bridge|in the hollow oak|behind the old oven|under the third step
in the hay loft|behind the waterfall|inside the broken clock|under the loose floorboard|in the empty beehive
beneath the mossy rock|at the bottom of the well|inside the grandfather chair|behind the red curtain
on top of the tall cupboard|under the upturned boat|inside the flour barrel|in the scarecrow's pocket
behind the mill wheel|under the blackberry bush|in the bell tower|inside the woodpile|under the garden bench
in the stable wall|behind the loose brick|inside the rain barrel|beneath the willow roots|in the attic trunk
under the church stairs|inside the old cannon|behind the bakery sign|in the pigeon house|under the fallen log
behind the third pillar|in the fishing hut|under the blue rug|inside the stove pipe|in the sexton's shed""")
VISITED = _words("""
market harbour mill meadow school orchard bakery chapel river forest stable hill library smithy pond garden windmill
station lighthouse dairy tower bridge quarry vineyard
""")
OFFICIALS = _words("priest mayor guard judge notary captain")
TOWN_STARTS = _words("""
Alder Ash Birch Black Bram Clay Cold Crow Dun East Elm Fair Fern Gold Green Hazel High Kings Lang Linden Marsh Mill
North Oak Raven Red Sand Silver Stone Thorn West White Willow Winter
""")
TOWN_ENDS = _words("bridge brook bury by combe dale field ford ham haven hill ley mere stead ton well wick wood")

SEASONS = _words("spring summer autumn winter")
TIMES = _phrases("""the first snow|the next full moon|the harvest feast|the end of the week|the spring fair|sunset
the longest night|the church bell rang twelve|the last day of school|the ferry came back|the swallows returned
the winter market|the river froze|the first of May|the new year|the lambs were born""")
FEELINGS = _words("happy sad worried proud angry tired excited surprised afraid hopeful lonely thankful")
WEATHERS = _words("rain wind fog snow hail thunder sunshine frost drizzle mist")
NUMBERS = _words("""
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty twenty-one twenty-two twenty-three twenty-four
""")
ORDINALS = _words("first second third fourth fifth")


@dataclass(frozen=True)
class Person:
    """Someone in a story, with what is needed to speak of them."""

    name: str
    girl: bool
    trade: str
    trait: str

    @property
    def she(self) -> str:
        """The subject pronoun."""
        return "she" if self.girl else "he"

    @property
    def her(self) -> str:
        """The object pronoun."""
        return "her" if self.girl else "him"

    @property
    def hers(self) -> str:
        """The possessive before a noun."""
        return "her" if self.girl else "his"

    @property
    def child(self) -> str:
        """girl or boy."""
        return "girl" if self.girl else "boy"

    @property
    def role(self) -> str:
        """The family's trade, as in "the miller's daughter"."""
        return f"the {self.trade}'s {'daughter' if self.girl else 'son'}"


@dataclass(frozen=True)
class Cast:
    """Those whom a story is about, and where they live."""

    hero: Person
    friend: Person
    town: str


class Dice:
    """Random choices of one story.

    Only `random.random` of an integer seed is used: the one sequence that Python promises never to change.
    """

    def __init__(self, seed: int, index: int) -> None:
        self._random = random.Random(stream_seed(seed, "story", index)).random
        self._used: set[str] = set()

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        return int(self._random() * n)

    def between(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + self.below(high - low + 1)

    def chance(self, share: float) -> bool:
        """True in this share of all throws."""
        return self._random() < share

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.below(len(options))]

    def fresh(self, words: Sequence[str]) -> str:
        """A word that this story has not used yet, so that each name means one thing."""
        while (word := self.pick(words)) in self._used:
            pass
        self._used.add(word)
        return word

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in a random order."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in range(len(rest))]

    def person(self) -> Person:
        """Someone new: two in three with a common name, the others with one that no table holds."""
        girl = self.chance(0.5)
        name = self.fresh(GIRLS if girl else BOYS) if self.chance(0.67) else self._invented_name(girl)
        return Person(name, girl, self.fresh(TRADES), self.fresh(VIRTUES if self.chance(0.5) else FAULTS))

    def thing(self) -> str:
        """A thing with a look of its own, such as "rusty kettle"."""
        look = self.fresh(COLOURS if self.chance(0.5) else LOOKS)
        return f"{look} {self.fresh(THINGS)}"

    def hiding_place(self) -> str:
        """Where a thing can be hidden, with its preposition."""
        return self.fresh(HIDING_PLACES)

    def town(self) -> str:
        """The name of a village."""
        return self.pick(TOWN_STARTS) + self.pick(TOWN_ENDS)

    def password(self) -> str:
        """Two words that belong together in this story only."""
        return f"{self.fresh(COLOURS)} {self.fresh(ANIMALS)}"

    def _invented_name(self, girl: bool) -> str:
        endings = GIRL_ENDINGS if girl else BOY_ENDINGS
        return self.fresh([self.pick(ONSETS) + self.pick(MIDDLES) + self.pick(endings) for _ in range(3)])


def article(words: str) -> str:
    """The words with the indefinite article."""
    return f"{'an' if words.startswith(('a', 'e', 'i', 'o', 'u', 'honest')) else 'a'} {words}"


def listed(items: Sequence[str]) -> str:
    """a, b and c."""
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else items[0]


def counted(number: int, plural: str) -> str:
    """The number in words with its noun: "one plum", "three plums", "no plums"."""
    if number == 0:
        return f"no {plural}"
    return f"{NUMBERS[number]} {singular(plural) if number == 1 else plural}"


def singular(plural: str) -> str:
    """One of them, for the nouns of the tables above."""
    if plural.endswith("ies") and plural not in ("pies", "cookies"):
        return plural[:-3] + "y"
    if plural.endswith(("oes", "ches", "shes")):
        return plural[:-2]
    return plural[:-1]
