"""What a report says, in one language: text and places on axes, nothing left to compute.

Terminal, Markdown and HTML are three ways to write the same content. Tables have columns by id, so that a writer takes
the ones it has room for.
"""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """One cell of a table. `is_name` marks a method's name, `colour` its swatch, `tone` the class of a verdict."""

    text: str
    is_name: bool = False
    colour: int | None = None
    tone: str = ""
    link: str = ""
    """The anchor of the part of the page that it leads to."""
    parts: tuple[str, ...] = ()
    """Values that must not be broken inside, one per seed; they stand for `text`."""

    @property
    def plain(self) -> str:
        """Everything it says."""
        return " ".join(self.parts) or self.text

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return self.plain in ("", "–")


@dataclass(frozen=True)
class Column:
    """A heading; numbers are set to the right."""

    id: str
    heading: str
    is_number: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells below headings."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""

    def only(self, ids: Collection[str]) -> "Table":
        """The columns with these ids in which there is anything; `also` stands for the first measure not judged."""
        other = next((column.id for column in self.columns if column.id.startswith("also.")), "")
        ids = {other if name == "also" else name for name in ids}
        places = [
            place
            for place, column in enumerate(self.columns)
            if column.id in ids and any(not row[place].is_empty for row in self.rows)
        ]
        rows = tuple(tuple(row[place] for place in places) for row in self.rows)
        return Table(tuple(self.columns[place] for place in places), rows, self.title)


@dataclass(frozen=True)
class Tick:
    """A label on an axis, at so many percent of its length."""

    place: float
    text: str


@dataclass(frozen=True)
class DotLabel:
    """The name beside a dot, so many pixels below its height; on the left of it where the plot ends on the right."""

    text: str
    down: float
    is_left: bool


@dataclass(frozen=True)
class Dot:
    """A point of a plot, in percent of its width and height, and the words that it shows under the pointer."""

    x: float
    y: float
    colour: int
    words: str
    is_filled: bool = True
    ends: tuple[float, float] | None = None
    """Of its interval, upwards, in percent of the height."""
    label: DotLabel | None = None


@dataclass(frozen=True)
class Plot:
    """Dots over two axes."""

    x_label: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    dots: tuple[Dot, ...]
    equal: float | None = None
    """The height of no difference, and that of the margin, where differences are drawn."""
    margin: float | None = None


@dataclass(frozen=True)
class Box:
    """A part of attention in its drawing, in the units of the drawing."""

    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    state: str
    """The class of what becomes of its weights; empty for an operation without any."""
    matrix: str = ""
    """The letter of a matrix W, set above the lines."""


@dataclass(frozen=True)
class AttentionDrawing:
    """What of attention an arm trains, freezes and leaves out."""

    arm: Cell
    words: str
    """The same for who cannot see it."""
    boxes: tuple[Box, ...]
    wires: tuple[str, ...]
    """The paths of the arrows between them."""


@dataclass(frozen=True)
class SideBySide:
    """One beginning, and what each arm made of it."""

    prompt: str
    texts: tuple[tuple[Cell, str], ...]


@dataclass(frozen=True)
class HeatMap:
    """A score of every head: rows are layers, the bottom one first; each value from 0 to 1, and how it is written."""

    title: str
    arm: Cell
    seed: str
    rows: tuple[tuple[tuple[float, str], ...], ...]


@dataclass(frozen=True)
class Statement:
    """A sentence with its remarks. `arm` is the name that it begins with."""

    arm: str
    text: str
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A titled part of the report."""

    anchor: str
    title: str
    lead: str = ""
    statements: tuple[Statement, ...] = ()
    remarks: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    texts: tuple[SideBySide, ...] = ()
    maps: tuple[HeatMap, ...] = ()
    legend: tuple[Cell, ...] = ()
    commands: tuple[str, ...] = ()
    listings: tuple[tuple[str, str], ...] = ()
    """Files in full, each with its heading."""
    brief: tuple[str, ...] = ()
    """What a short report says instead of the whole section."""


@dataclass(frozen=True)
class SeedMark:
    """The value of one seed: its text, and its place where there is an axis."""

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
    other_text: str = ""
    """By how much another text would move the estimate; empty where it is not known."""


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
    equal: float
    """The place of no difference."""
    margin: float
    caption: str
    explained_in: str
    """The anchor of the part that names the confounds."""


@dataclass(frozen=True)
class Rows:
    """One measure: the figures of every arm, and every arm against its control."""

    title: str
    """What is compared, and the criterion."""
    figures: Section
    forest: Forest | None
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class About:
    """The study: what it asks, and whether that was fixed before its runs."""

    title: str
    question: str
    kind: str


@dataclass(frozen=True)
class Answer:
    """The verdict: in plain words, as one exact sentence, its numbers, and what else could explain it."""

    plain: str
    sentence: str
    tone: str
    figures: tuple[tuple[str, str], ...]
    """Names and numbers."""
    seeds: tuple[SeedMark, ...]
    explanations: tuple[str, ...]


@dataclass(frozen=True)
class Experiment:
    """Arms that learn the same thing: the verdict, the rows, the remarks, the views."""

    anchor: str
    title: str
    """What is learned, by what size of model; empty where the report has only one experiment."""
    about: About | None
    """None where the experiment before is of the same study."""
    verdict: Answer
    price: Section | None
    """Quality against saving."""
    drawings: tuple[AttentionDrawing, ...]
    """One per arm, that of the verdict first."""
    rows: tuple[Rows, ...]
    remarks: tuple[str, ...]
    """What concerns several arms at once."""
    comparisons: Section | None
    """All statements and remarks in one section; None where they say nothing new."""
    legend: tuple[Cell, ...]
    """Every arm; its place is that of the arm in the curve data. Empty where there are no curves."""
    answered: tuple[Section, ...]
    """What the models were asked afterwards."""
    curve_choices: tuple[tuple[str, str], ...]
    """What the curves can show: the name that the script knows, and the word for it."""
    views: tuple[Section, ...]


@dataclass(frozen=True)
class Content:
    """The report in one language."""

    title: str
    facts: str
    openings: tuple[Section, ...]
    """What comes before the experiments: one line for each of several; the claims of a study that is only shown."""
    experiments: tuple[Experiment, ...]
    sections: tuple[Section, ...]
    """What concerns all experiments."""
    notes: tuple[str, ...]
    """Plans and runs that are missing."""
    footnotes: tuple[str, ...]
    """How to read the numbers."""
