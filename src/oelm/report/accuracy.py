"""Fine-tuned runs side by side: accuracy on the evaluation sets, paired by seed, against a share of the baseline's.

Figures are those of the last step; the best checkpoint (by hold-out loss) stands beside them. The interval is the
paired t-interval over seeds: it speaks of other seeds on the same evaluation set, not of other examples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from oelm.base.errors import ConfigError
from oelm.config.record import Evaluation, Record
from oelm.report.arms import Arm, group_into_arms
from oelm.report.comparison import choose_control
from oelm.report.numerals import written_percent
from oelm.report.statistics import SEEDS_FOR_INTERVAL, SEEDS_FOR_VERDICT, Verdict, half_widths

SHARE = 0.95
"""The criterion of the original study: at least so much of the baseline's accuracy."""


@dataclass(frozen=True)
class AccuracyRow:
    """One arm on one evaluation set; accuracies are shares, differences are in points (hundredths)."""

    arm: Arm
    evaluation: str
    control: Arm | None
    by_seed: dict[int, float]
    best_by_seed: dict[int, float]
    points: float | None
    half_width: float | None
    verdict: Verdict

    @property
    def mean(self) -> float:
        """Mean accuracy over seeds at the last step."""
        return fmean(self.by_seed.values())

    @property
    def best_mean(self) -> float:
        """Mean accuracy over seeds of the best checkpoints."""
        return fmean(self.best_by_seed.values())


def accuracy_rows(records: Sequence[Record], share: float = SHARE) -> tuple[AccuracyRow, ...]:
    """Each arm on each evaluation set, beside its control."""
    if any(not record.evaluations for record in records):
        raise ConfigError("some of these runs have no evaluation", "compare fine-tuned runs and language models apart")
    arms = group_into_arms(records)
    names = dict.fromkeys(row.name for record in records for row in record.evaluations)
    controls = {arm.label: choose_control(arm, arms) for arm in arms}
    return tuple(_row(arm, controls[arm.label], name, share) for name in names for arm in arms)


def _row(arm: Arm, control: Arm | None, name: str, share: float) -> AccuracyRow:
    mine, best = _accuracies(arm, name, "last"), _accuracies(arm, name, "best")
    theirs = _accuracies(control, name, "last") if control else {}
    seeds = sorted(mine.keys() & theirs.keys())
    differences = np.array([100 * (mine[seed] - theirs[seed]) for seed in seeds])
    points = float(differences.mean()) if seeds else None
    half_width = float(half_widths(differences)) if len(seeds) >= SEEDS_FOR_INTERVAL else None
    allowed = -100 * (1 - share) * fmean(theirs[seed] for seed in seeds) if seeds else None
    verdict = _judge(points, half_width, allowed) if len(seeds) >= SEEDS_FOR_VERDICT else Verdict.NO_VERDICT
    return AccuracyRow(arm, name, control, mine, best, points, half_width, verdict)


def _judge(points: float | None, half_width: float | None, allowed: float | None) -> Verdict:
    """Where the interval of the difference lies, seen from 0 and from the loss that is still allowed."""
    if points is None or half_width is None or allowed is None:
        return Verdict.NO_VERDICT
    if points - half_width > 0:
        return Verdict.BETTER
    if points - half_width >= allowed:
        return Verdict.NON_INFERIOR
    return Verdict.INFERIOR if points + half_width < allowed else Verdict.UNDECIDED


def _accuracies(arm: Arm, name: str, checkpoint: str) -> dict[int, float]:
    def wanted(row: Evaluation) -> bool:
        return row.name == name and row.checkpoint == checkpoint

    return {
        record.config.seed: row.measures["accuracy"]
        for record in arm.records
        for row in record.evaluations
        if wanted(row)
    }


HEADINGS = (
    "method",
    "set",
    "lr",
    "trained",
    "frozen",
    "accuracy by seed, %",
    "mean",
    "best ckpt",
    "points to control (95 %)",
    "verdict",
    "FLOPs saved",
)


def cells(row: AccuracyRow) -> tuple[str, ...]:
    """One arm as text, in the order of the headings."""
    counts = row.arm.records[0].counts
    if row.points is None:
        difference = ""
    elif row.half_width is None:
        difference = f"{row.points:+.2f}"
    else:
        difference = f"{row.points:+.2f} ({row.points - row.half_width:+.2f} to {row.points + row.half_width:+.2f})"
    return (
        row.arm.label,
        row.evaluation,
        f"{row.arm.config.optim.lr:g}",
        f"{counts.trained:,}",
        f"{counts.frozen:,}",
        " ".join(f"{100 * value:.2f}" for value in row.by_seed.values()),
        f"{100 * row.mean:.2f}",
        f"{100 * row.best_mean:.2f}",
        difference,
        row.verdict if row.control else "",
        written_percent(row.arm.flops_saved_share),
    )


def footnotes(rows: Sequence[AccuracyRow], share: float = SHARE) -> list[str]:
    """What the table means, and what it does not."""
    rates = {row.arm.config.optim.lr for row in rows}
    notes = [
        f"Verdict: is at least {100 * share:g} % of the control's accuracy kept? Paired t-intervals over seeds on one "
        "evaluation set, each arm for itself; they say nothing about other examples.",
        "Accuracies are those of the last step; the best checkpoint was chosen by hold-out loss.",
    ]
    if len(rates) > 1:
        notes.append(
            "Learning rates differ between arms: a confound, unless each was chosen on the same grid by hold-out."
        )
    return notes


def as_markdown(rows: Sequence[AccuracyRow], share: float = SHARE) -> str:
    """The table and its footnotes as Markdown."""
    lines = [_joined(HEADINGS), _joined("---" for _ in HEADINGS)]
    lines += [_joined((f"`{first}`", *others)) for first, *others in map(cells, rows)]
    return "\n".join(lines) + "\n\n" + "\n".join(f"- {note}" for note in footnotes(rows, share)) + "\n"


def _joined(parts: Any) -> str:
    return f"| {' | '.join(parts)} |"


def as_json(rows: Sequence[AccuracyRow]) -> list[dict[str, Any]]:
    """The rows as plain data."""
    return [
        {
            "method": row.arm.label,
            "evaluation": row.evaluation,
            "control": row.control.label if row.control else None,
            "accuracy_by_seed": row.by_seed,
            "best_checkpoint_accuracy_by_seed": row.best_by_seed,
            "points": row.points,
            "half_width": row.half_width,
            "verdict": row.verdict,
        }
        for row in rows
    ]
