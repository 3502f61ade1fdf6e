"""What is measured of a trained model: a value with a name, a direction and a scale on which two arms are compared.

A task declares its measures, every record carries those that it was written with, and selection, status, tables and
reports read them. Nobody above a task asks whether it is perplexity or accuracy.
"""

import math
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
TEXT_LOSS = Measure(
    name="text_loss",
    title=Bilingual(english="loss on text", chinese="文本损失"),
    better=Better.LOWER,
    decimals=4,
    read_from="evaluation",
)
TEXT_PERPLEXITY = Measure(
    name="text_perplexity",
    title=Bilingual(english="perplexity on text", chinese="文本困惑度"),
    better=Better.LOWER,
    scale=CompareScale.RATIO,
    criterion=1.05,
    read_from="evaluation",
    logarithm="text_loss",
)
TEXT_BITS_PER_BYTE = Measure(
    name="text_bits_per_byte",
    title=Bilingual(english="bits per byte of text", chinese="文本每字节比特数"),
    better=Better.LOWER,
    decimals=3,
    read_from="evaluation",
)
CHOICE_ACCURACY = Measure(
    name="choice_accuracy",
    title=Bilingual(english="right choices", chinese="选择正确率"),
    better=Better.HIGHER,
    percent=True,
    scale=CompareScale.DIFFERENCE,
    criterion=-2.0,
    read_from="evaluation",
    per="example",
)
CHOICE_ACCURACY_PER_TOKEN = Measure(
    name="choice_accuracy_per_token",
    title=Bilingual(english="right choices by mean per token", chinese="按每词元平均的选择正确率"),
    better=Better.HIGHER,
    percent=True,
    read_from="evaluation",
)
LAST_WORD_ACCURACY = Measure(
    name="last_word_accuracy",
    title=Bilingual(english="right last words", chinese="末词正确率"),
    better=Better.HIGHER,
    percent=True,
    scale=CompareScale.DIFFERENCE,
    criterion=-2.0,
    read_from="evaluation",
    per="example",
)
LAST_WORD_PERPLEXITY = Measure(
    name="last_word_perplexity",
    title=Bilingual(english="perplexity of last words", chinese="末词困惑度"),
    better=Better.LOWER,
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
IN_CONTEXT_ACCURACY = PROBE_ACCURACY.model_copy(
    update={
        "name": "in_context_accuracy",
        "title": Bilingual(english="answers from context", chinese="上下文回答率"),
        "read_from": "evaluation",
    }
)
CHARACTER_KEPT = Measure(
    name="character_kept",
    title=Bilingual(english="texts that keep the character", chinese="保留人物的文本"),
    better=Better.HIGHER,
    percent=True,
    scale=CompareScale.DIFFERENCE,
    criterion=-5.0,
    read_from="evaluation",
    per="example",
)
DISTINCT_WORDS = Measure(
    name="distinct_1",
    title=Bilingual(english="distinct tokens", chinese="不同词元占比"),
    better=Better.HIGHER,
    percent=True,
    read_from="evaluation",
)
DISTINCT_PAIRS = DISTINCT_WORDS.model_copy(
    update={"name": "distinct_2", "title": Bilingual(english="distinct pairs", chinese="不同二元组占比")}
)
DISTINCT_TRIPLES = DISTINCT_WORDS.model_copy(
    update={"name": "distinct_3", "title": Bilingual(english="distinct triples", chinese="不同三元组占比")}
)
REPETITION = Measure(
    name="repetition",
    title=Bilingual(english="repeated four-token phrases", chinese="重复的四词元短语"),
    better=Better.LOWER,
    percent=True,
    read_from="evaluation",
)
JUDGED_PERPLEXITY = Measure(
    name="judged_perplexity",
    title=Bilingual(english="perplexity under the judge", chinese="评判模型下的困惑度"),
    better=Better.LOWER,
    read_from="evaluation",
)
ATTENTION_ENTROPY = Measure(
    name="attention_entropy",
    title=Bilingual(english="entropy of attention", chinese="注意力熵"),
    better=Better.LOWER,
    percent=True,
    read_from="evaluation",
)
ATTENTION_PREVIOUS = Measure(
    name="attention_previous",
    title=Bilingual(english="look at the previous token", chinese="注视前一词元"),
    better=Better.HIGHER,
    percent=True,
    read_from="evaluation",
)
ATTENTION_SAME_TOKEN = ATTENTION_PREVIOUS.model_copy(
    update={
        "name": "attention_same_token",
        "title": Bilingual(english="look at the same token", chinese="注视相同词元"),
    }
)
ATTENTION_INDUCTION = ATTENTION_PREVIOUS.model_copy(
    update={
        "name": "attention_induction",
        "title": Bilingual(english="look behind the same token", chinese="注视相同词元之后"),
    }
)

LANGUAGE_MODELLING: tuple[Measure, ...] = (PERPLEXITY, BITS_PER_BYTE, LOSS)
CLASSIFICATION: tuple[Measure, ...] = (ACCURACY, MACRO_F1, LOSS)
REGRESSION: tuple[Measure, ...] = (PEARSON, SPEARMAN, SQUARED_ERROR)
SEQUENCE_TO_SEQUENCE: tuple[Measure, ...] = (ROUGE_L, EXACT_MATCH, LOSS)
PROBING: tuple[Measure, ...] = (PROBE_ACCURACY, LOSS)
IN_CONTEXT: tuple[Measure, ...] = (IN_CONTEXT_ACCURACY,)
GENERATION: tuple[Measure, ...] = (
    CHARACTER_KEPT,
    DISTINCT_WORDS,
    DISTINCT_PAIRS,
    DISTINCT_TRIPLES,
    REPETITION,
    JUDGED_PERPLEXITY,
)
ATTENTION: tuple[Measure, ...] = (
    ATTENTION_ENTROPY,
    ATTENTION_PREVIOUS,
    ATTENTION_SAME_TOKEN,
    ATTENTION_INDUCTION,
)
LIKELIHOOD: tuple[Measure, ...] = (TEXT_PERPLEXITY, TEXT_BITS_PER_BYTE, TEXT_LOSS)
CHOICES: tuple[Measure, ...] = (CHOICE_ACCURACY, CHOICE_ACCURACY_PER_TOKEN)
LAST_WORDS: tuple[Measure, ...] = (LAST_WORD_ACCURACY, LAST_WORD_PERPLEXITY)
BY_TASK = {
    "language-modelling": LANGUAGE_MODELLING,
    "classification": CLASSIFICATION,
    "regression": REGRESSION,
    "seq2seq": SEQUENCE_TO_SEQUENCE,
    "probing": PROBING,
}
"""For what has no record yet, and for records from before they carried their measures."""
