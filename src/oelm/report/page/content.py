"""What the page shows, in one language: text and places on axes, nothing left to compute.

HTML and Markdown are two ways to write the same content.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """One cell of a table. `name` marks a method's name, `colour` its swatch, `tone` the class of a verdict."""

    text: str
    name: bool = False
    colour: int | None = None
    tone: str = ""
    link: str = ""
    """The anchor of the part of the page that it leads to."""
    parts: tuple[str, ...] = ()
    """Values that must not be broken inside, one per seed; they stand for `text`."""


@dataclass(frozen=True)
class Column:
    """A heading; numbers are set to the right."""

    heading: str
    number: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells below headings."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""


@dataclass(frozen=True)
class Tick:
    """A label on an axis, at so many percent of its length."""

    place: float
    text: str


@dataclass(frozen=True)
class Dot:
    """A point of a drawing, in percent of its width and height, and the words that it shows under the pointer."""

    x: float
    y: float
    colour: int
    words: str
    filled: bool = True


@dataclass(frozen=True)
class Plot:
    """Dots over two axes."""

    across: str
    up: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class Statement:
    """A sentence and what stands beside it."""

    text: str
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A part of the page below the verdict."""

    anchor: str
    title: str
    lead: str = ""
    statements: tuple[Statement, ...] = ()
    remarks: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    legend: tuple[Cell, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeedMark:
    """The value of one seed: its words, and its place where there is an axis."""

    seed: int
    text: str
    place: float | None = None


@dataclass(frozen=True)
class Lane:
    """One arm of the drawing of intervals; places are None where there is nothing to draw."""

    label: str
    colour: int
    is_primary: bool
    tone: str
    """The class of the verdict."""
    verdict: str
    estimate: str
    interval: str
    confounds: str
    """How many there are; empty where there is none."""
    middle: float | None
    lower: float | None
    upper: float | None
    seeds: tuple[SeedMark, ...]


@dataclass(frozen=True)
class LaneGroup:
    """Lanes with one control."""

    heading: str
    lanes: tuple[Lane, ...]


@dataclass(frozen=True)
class Forest:
    """All intervals on one axis."""

    title: str
    groups: tuple[LaneGroup, ...]
    ticks: tuple[Tick, ...]
    nothing: float
    """The place of no difference."""
    margin: float | None
    caption: str
    explained: str
    """The anchor of the part that names the confounds."""


@dataclass(frozen=True)
class Figure:
    """A number below its name."""

    name: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """The answer: one sentence, its numbers, and what else could explain it."""

    sentence: str
    tone: str
    figures: tuple[Figure, ...]
    seeds_heading: str
    seeds: tuple[SeedMark, ...]
    beside_heading: str
    beside: tuple[str, ...]


@dataclass(frozen=True)
class Experiment:
    """Arms that learn the same thing: the answer, the curves, the views."""

    anchor: str
    title: str
    """What is learned, by what size of model; empty where the page has only one experiment."""
    verdict: Verdict
    forest: Forest | None
    before: tuple[Section, ...]
    """Sections above the curves."""
    legend: tuple[Cell, ...]
    """Every arm; its place is that of the arm in the curve data. Empty where there are no curves."""
    measures: tuple[tuple[str, str], ...]
    """What the curves can show: the name that the script knows, and the word for it."""
    after: tuple[Section, ...]


@dataclass(frozen=True)
class Content:
    """The page in one language."""

    title: str
    facts: str
    overview: Section | None
    """One line per experiment, where there are several."""
    experiments: tuple[Experiment, ...]
    sections: tuple[Section, ...]
    """What concerns all experiments."""
    footnotes: tuple[str, ...]
