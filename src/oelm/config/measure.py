"""What is measured of a trained model: a value with a name, a direction and a scale on which two arms are compared.

Every task and every evaluation declares its measures, every record carries those that it was written with, and
selection, status, tables and reports read them. Nobody above a task asks whether it is perplexity or accuracy. The
measures of the tasks stand here: plans need them before there is a record, and older records do not carry theirs.
"""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, Self

from pydantic import model_validator

from oelm.config.settings import Settings


class Bilingual(Settings):
    """One text in each language of the report."""

    english: str
    chinese: str


class Better(StrEnum):
    """Which of two values is the better one."""

    LOWER = "lower"
    HIGHER = "higher"


class CompareScale(StrEnum):
    """How an arm is compared with its control."""

    RATIO = "ratio"
    """exp(mean difference of logarithms): 1.03 times the control's value."""
    SHARE = "share"
    """The arm's mean over the control's mean: 98 % of the control's value."""
    DIFFERENCE = "difference"
    """The arm's mean minus the control's, in the unit that is shown (percentage points for a percentage)."""

    @property
    def neutral(self) -> float:
        """The value of two equal arms."""
        return 0.0 if self is CompareScale.DIFFERENCE else 1.0


class Measure(Settings):
    """One measure. With a `scale` and a `criterion` it is judged; without them it is only shown."""

    name: str
    """Under which records hold its values."""
    title: Bilingual
    better: Better
    decimals: int = 2
    percent: bool = False
    """Whether it is shown in hundredths with a % sign."""
    scale: CompareScale | None = None
    criterion: float | None = None
    """The limit on the scale that still counts as no worse, unless a study states its own."""
    shown_as: CompareScale | None = None
    """A second scale, shown but not judged."""
    read_from: Literal["validation", "evaluation"] = "validation"
    """The last validation of the run, or each evaluation set."""
    per: Literal["run", "example"] = "run"
    """What scatters: one value per run; or per run and example, where the examples are a sample too."""
    logarithm: str | None = None
    """The measure that is this one's natural logarithm, where records hold it: more exact, and it never overflows."""

    @model_validator(mode="after")
    def _judged_or_not(self) -> Self:
        if (self.scale is None) != (self.criterion is None):
            raise ValueError("a judged measure has a scale and a criterion, another one has neither")
        if self.scale is not None and self.criterion is not None and not self.accepts(self.criterion):
            raise ValueError(f"{self.criterion:g} is not on the worse side of {self.scale.neutral:g}")
        if (self.scale is CompareScale.RATIO and self.per == "example") or (
            self.scale is CompareScale.SHARE and self.per == "run"
        ):
            raise ValueError("a ratio is taken of runs and a share of examples; a difference is taken of either")
        return self

    @property
    def sign(self) -> int:
        """+1 where larger is worse, -1 where larger is better."""
        return 1 if self.better is Better.LOWER else -1

    def accepts(self, criterion: float) -> bool:
        """Whether this can be a criterion: a limit on the worse side of no difference."""
        return (
            self.scale is not None
            and math.isfinite(criterion)
            and self.sign * (criterion - self.scale.neutral) > 0
            and (self.scale is CompareScale.DIFFERENCE or criterion > 0)
        )

    def badness(self, measures: Mapping[str, float]) -> float:
        """Its value among those of several measures, with the sign by which less is better."""
        return self.sign * measures[self.name]

    def best(self, values: dict[float, float]) -> float:
        """The key of the best value; of equal ones the first."""
        return min(values, key=lambda key: self.sign * values[key])

    @property
    def factor(self) -> float:
        """From a value to what is shown of it."""
        return 100.0 if self.percent else 1.0

    def bare(self, value: float) -> str:
        """A value without its unit; the larger it is, the fewer decimals."""
        shown = self.factor * value
        if not math.isfinite(shown) or abs(shown) >= 1e6:
            return f"{shown:.2g}"
        whole = max(len(f"{abs(shown):.0f}") - 2, 0)
        return f"{shown:.{max(self.decimals - whole, 0)}f}"

    def written(self, value: float) -> str:
        """A value with its unit."""
        return f"{self.bare(value)} %" if self.percent else self.bare(value)


LOSS = Measure(name="loss", title=Bilingual(english="loss", chinese="损失"), better=Better.LOWER, decimals=4)
PERPLEXITY = Measure(
    name="perplexity",
    title=Bilingual(english="perplexity", chinese="困惑度"),
    better=Better.LOWER,
    scale=CompareScale.RATIO,
    criterion=1.05,
    logarithm="loss",
)
BITS_PER_BYTE = Measure(
    name="bits_per_byte",
    title=Bilingual(english="bits per byte", chinese="每字节比特数"),
    better=Better.LOWER,
    decimals=3,
)
ACCURACY = Measure(
    name="accuracy",
    title=Bilingual(english="accuracy", chinese="准确率"),
    better=Better.HIGHER,
    percent=True,
    scale=CompareScale.SHARE,
    criterion=0.95,
    shown_as=CompareScale.DIFFERENCE,
    read_from="evaluation",
    per="example",
)
MACRO_F1 = Measure(
    name="f1",
    title=Bilingual(english="macro F1", chinese="宏平均 F1"),
    better=Better.HIGHER,
    decimals=4,
    read_from="evaluation",
)
SQUARED_ERROR = LOSS.model_copy(update={"title": Bilingual(english="mean squared error", chinese="均方误差")})
"""The loss of regression, under the name that every task's loss has."""
PEARSON = Measure(
    name="pearson",
    title=Bilingual(english="Pearson correlation", chinese="皮尔逊相关系数"),
    better=Better.HIGHER,
    decimals=4,
    scale=CompareScale.DIFFERENCE,
    criterion=-0.02,
    read_from="evaluation",
)
SPEARMAN = Measure(
    name="spearman",
    title=Bilingual(english="Spearman correlation", chinese="斯皮尔曼相关系数"),
    better=Better.HIGHER,
    decimals=4,
    read_from="evaluation",
)
EXACT_MATCH = Measure(
    name="exact_match",
    title=Bilingual(english="exact texts", chinese="完全匹配率"),
    better=Better.HIGHER,
    percent=True,
    scale=CompareScale.DIFFERENCE,
    criterion=-2.0,
    read_from="evaluation",
    per="example",
)
ROUGE_L = Measure(
    name="rouge_l",
    title=Bilingual(english="ROUGE-L", chinese="ROUGE-L"),
    better=Better.HIGHER,
    percent=True,
    scale=CompareScale.DIFFERENCE,
    criterion=-1.0,
    read_from="evaluation",
)
PROBE_ACCURACY = Measure(
    name="probe_accuracy",
    title=Bilingual(english="exact answers", chinese="精确回答率"),
    better=Better.HIGHER,
    percent=True,
    scale=CompareScale.DIFFERENCE,
    criterion=-1.0,
)

LANGUAGE_MODELLING: tuple[Measure, ...] = (PERPLEXITY, BITS_PER_BYTE, LOSS)
CLASSIFICATION: tuple[Measure, ...] = (ACCURACY, MACRO_F1, LOSS)
REGRESSION: tuple[Measure, ...] = (PEARSON, SPEARMAN, SQUARED_ERROR)
SEQUENCE_TO_SEQUENCE: tuple[Measure, ...] = (ROUGE_L, EXACT_MATCH, LOSS)
PROBING: tuple[Measure, ...] = (PROBE_ACCURACY, LOSS)
BY_TASK = {
    "language-modelling": LANGUAGE_MODELLING,
    "classification": CLASSIFICATION,
    "regression": REGRESSION,
    "seq2seq": SEQUENCE_TO_SEQUENCE,
    "probing": PROBING,
}
"""For what has no record yet, and for records from before they carried their measures."""
