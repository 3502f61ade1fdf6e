"""Every text that a reader sees, in one place: a further language is a further `Texts` value.

Templates are filled by `str.format` in `sentences.py`; the names in braces are the same in each language.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oelm.report.confounds import ConfoundKind
from oelm.report.statistics import Verdict


@dataclass(frozen=True)
class Texts:
    """One language. A field added here is missing in no language, or the type checker says so."""

    measured_title: str
    arm: str
    trained: str
    perplexity_by_seed: str
    mean: str
    bits_per_byte: str
    flops_saved: str
    step_time: str
    verdict_title: str
    against: str
    ratio: str
    interval: str
    verdict: str
    scale: str
    verdicts: Mapping[Verdict, str]
    """Phrases that end a sentence; `{margin}` is a percentage."""
    also_measurably_worse: str
    finding: str
    finding_without_interval: str
    finding_without_pairs: str
    no_control: str
    resolution: str
    add_runs: str
    add_run: str
    confound: str
    confounds: Mapping[ConfoundKind, str]
    scale_gap: str
    speed_bound: str
    speed_measured: str
    time_ratio: str
    speed_caveat: str
    unfinished: str
    footnotes: tuple[str, ...]
    trained_later: str


ENGLISH = Texts(
    measured_title="What was measured",
    arm="method",
    trained="trained",
    perplexity_by_seed="perplexity by seed",
    mean="mean",
    bits_per_byte="bits/byte",
    flops_saved="FLOPs saved",
    step_time="ms/step",
    verdict_title="What it shows (perplexity ratio, margin {margin})",
    against="vs {control}",
    ratio="ratio",
    interval="95 % interval",
    verdict="verdict",
    scale="│ = 1, ┆ = margin",
    verdicts={
        Verdict.BETTER: "better",
        Verdict.NON_INFERIOR: "non-inferior at the {margin} margin",
        Verdict.INFERIOR: "inferior to the {margin} margin",
        Verdict.UNDECIDED: "undecided at the {margin} margin",
        Verdict.NO_VERDICT: "no verdict, which takes {needed} paired seeds",
    },
    also_measurably_worse=", yet measurably worse",
    finding=(
        "{arm}: perplexity x{ratio} (95 % interval {lower} to {upper}, n = {pairs} paired seeds) "
        "of {control}: {verdict}."
    ),
    finding_without_interval=(
        "{arm}: perplexity x{ratio} (no interval, n = {pairs} paired seed) of {control}: {verdict}."
    ),
    finding_without_pairs="{arm} and {control} have no seed in common: {verdict}.",
    no_control=(
        "{arm}: no control among these runs, so no ratio and no verdict. "
        "Add runs of {control} (or of baseline) with the same settings and seeds."
    ),
    resolution="Smallest margin that this design could have shown: x{resolution}.",
    add_runs="For a verdict, with all other settings as before: {commands}.",
    add_run="`oelm train --method {method} --seed {seed}`",
    confound="Confound: {confound}.",
    confounds={
        ConfoundKind.SETTING: "{what} differs ({arm} against {control})",
        ConfoundKind.ENVIRONMENT: "{what} differs ({arm} against {control})",
        ConfoundKind.EXTRAS: "extras differ ({arm} against {control}), so not only Q and K do",
        ConfoundKind.SEEDS: "seeds differ ({arm} against {control}); only those in both are used",
        ConfoundKind.ONE_SEED: "one paired seed only, so the method cannot be told from chance",
        ConfoundKind.FREEZE_AUDIT: "frozen weights moved during training (seed {arm})",
    },
    scale_gap=(
        "{one} against {other}: rows of Q and K have norm {one_norm} and {other_norm} at init, "
        "so a difference between the two may be one of scale, not of direction."
    ),
    speed_bound="Speed: matmul FLOPs bound what a method can save on baseline's step: {shares}.",
    speed_measured="Measured time per step relative to the control, shown without a claim: {ratios}.",
    time_ratio="{arm} x{ratio}",
    speed_caveat="Times of runs side by side on a shared machine are not evidence.",
    unfinished="Left out, as not finished: {folders}. A run that failed is a result too.",
    footnotes=(
        "Perplexities are those of the last step, not of the best checkpoint; the mean is exp(mean loss).",
        "Ratios are paired by seed: both runs of a pair share batches and all weights outside the method.",
        "Each interval is a paired t-interval of its own arm, not corrected for there being several arms: "
        "of twenty such intervals, about one misses its true ratio.",
    ),
    trained_later="Trained weights include those that a freezing plan releases later.",
)
