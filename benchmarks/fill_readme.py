"""Write the tables of README.md and docs/, plots, pages, and the study file's reference anew, from results/ and models.

`make results` calls it; a test compares.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

from confirmed_answers import ARM, LARGER, SMALL, answers, loss_by_part, where_heads_look

from oelm.base.files import read_json
from oelm.bench.plots import new_figure, write_plots
from oelm.bench.show import read_record, relative_to, sheet_markdown
from oelm.bench.words import machine_line, sheets
from oelm.config.measure import PERPLEXITY
from oelm.config.methods import CARRIED, MODIFIERS, PRETRAINED_METHODS, SUMMARIES, control_of, parse_method
from oelm.config.model import GPT2_VOCABULARY
from oelm.config.record import Record
from oelm.config.request import TrainRequest, model_config
from oelm.experiments.study_schema import reference
from oelm.model.ledger import count_weights
from oelm.report.arms import Arm, cell_of
from oelm.report.findings import Estimate, Finding, estimate_pair
from oelm.report.groups import Report, report_runs
from oelm.report.record_files import load_records
from oelm.report.verdicts import PAIRS_FOR_VERDICT
from oelm.report.write_html import as_html
from oelm.report.write_markdown import as_markdown

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"


@cache
def report_of(study: str) -> Report:
    """The report on a study below results/."""
    return report_runs([RESULTS / study])


def reliability() -> str:
    """What the fuzz, the fault injection and the soak tried, and what got through; what the checks cost."""
    names = ("fuzz", "faults", "soak", "startup")
    fuzz, faults, soak, startup = (read_json(RESULTS / "reliability" / f"{name}.json") for name in names)
    operations = len(faults["first_killed_before_operations"])
    rows = [
        f"| command lines | {fuzz['command_lines']:,} | tracebacks and hangs, with damaged files: "
        f"{fuzz['tracebacks']} and {fuzz['hangs']} |",
        f"| damaged files | {fuzz['corrupted_files']:,} | silently accepted: {fuzz['silently_accepted']} |",
        f"| kills of {faults['runs']:,} training runs, the first before each of {operations} operations on files "
        f"| {faults['kills']:,} | runs that ended otherwise than undisturbed: {faults['runs_that_differ']} |",
        f"| steps of one long run, and of the same one killed {soak['kills_of_the_second_run']} times "
        f"| {soak['steps']:,} | parts that differ: {len(soak['parts_that_differ'])}; {_grown(soak)} |",
        *(_cost(startup, moment) for moment in ("first_start", "resumption")),
    ]
    return "\n".join(["| tried | times | what got through |", "|---|---:|---|", *rows])


def simulations() -> str:
    """How often simulated studies end in a wrong claim."""
    designs = read_json(RESULTS / "reliability" / "simulations.json")["designs"]
    rows = [
        f"| {name} | {row['studies']:,} | {row['wrong']:,} | {100 * row['wrong'] / row['studies']:.1f} % |"
        for name, row in designs.items()
    ]
    return "\n".join(["| what is simulated | studies | with a wrong claim | share |", "|---|---:|---:|---:|", *rows])


def _grown(soak: dict[str, Any]) -> str:
    """Memory, threads, open files and checkpoints, after a tenth of the steps and at the end."""
    first, last = (round(kb / 1024) for kb in soak["resident_kb_first_and_last"])
    others = ("threads", "open_files", "checkpoints")
    rest = (f"{name.replace('_', ' ')} {' and '.join(map(str, soak[f'{name}_first_and_last']))}" for name in others)
    return f"MB of memory early and late {first} and {last}, {', '.join(rest)}"


def _cost(startup: dict[str, Any], moment: str) -> str:
    """CPU seconds of the command to those without its checks."""
    ratio, seconds = startup["ratio"][moment], startup["cpu_seconds_all_and_without_checks"][moment]
    what = f"start of a run on {startup['token_bytes'] / 1e6:.0f} MB of tokens that were never looked at"
    return (
        f"| {what if moment == 'first_start' else 'resumption of that run'}, by what its checks take "
        f"| {startup['rounds']} | CPU time ×{ratio['median']:.3f} (95 % interval {ratio['low']:.3f} to "
        f"{ratio['high']:.3f}) of {median(without for _, without in seconds):.1f} s |"
    )


WAYS = {
    "baseline": "everything trained",
    "keep": "Q and K frozen as they are (`keep`)",
    "oelm-exact": "the same function, Q and K with orthogonal rows (`oelm-exact`)",
    "oelm-exact+equal": "Q and K made orthogonal, rows of equal length (`oelm-exact+equal`)",
    "oelm-polar+matched": "nearest orthogonal Q and K (`oelm-polar+matched`)",
    "oelm-qr+matched": "orthogonal Q and K by QR (`oelm-qr+matched`)",
    "oelm": "fresh orthogonal Q and K (`oelm`)",
    "lora": "LoRA on Q and V, rank 8 (`lora`)",
    "bitfit": "biases only (`bitfit`)",
    "frozen-embeddings": "embeddings frozen (`frozen-embeddings`)",
    "top-layers": "the top two of six layers (`top-layers`)",
    "blind": "attention that looks nowhere (`blind`)",
}


def ways_to_finetune() -> str:
    """Quality of the SST-2 study beside trained weights, memory and time of a step.

    `oelm-exact` was not run: it is the function of `keep`.
    """
    (group,) = report_of("sst2-confirmation").groups
    speed = {row["name"]: row for row in read_json(RESULTS / "bench" / "minilm.json")["steps"][0]["rows"]}
    found = {row.arm.label: row for row in group.findings if row.measure.name == "accuracy"}
    lines = [
        "| what is trained | accuracy, % | points to all trained | weights trained | MB of memory | step time |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, words in WAYS.items():
        row, cost = found.get(name, found["keep"]), speed.get(name)
        points = "" if row.shown is None else f"{row.shown.value:+.2f}"
        if row.shown is not None and row.shown.ends is not None:
            points += " ({:+.2f} to {:+.2f})".format(*row.shown.ends)
        memory = f"{cost['peak_bytes'] / 1e6:,.0f}" if cost else "as `keep`"
        ratio = cost["ratio"] if cost else None
        time = "1" if cost else "as `keep`"
        if ratio:
            time = f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
        quality = [f"{100 * (row.mean or 0):.2f}", points] if name in found else ["as `keep`, not run", ""]
        shown = [words, *quality, f"{row.arm.ever_trained:,}", memory, time]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines)


@dataclass(frozen=True)
class Screened:
    """A method with one seed at several learning rates."""

    by_rate: dict[float, Record]

    @property
    def record(self) -> Record:
        """One of its runs, for what all have in common."""
        return next(iter(self.by_rate.values()))

    def ratio(self, control: "Screened") -> float | None:
        """Of perplexities, each at its best rate of those that both have been run at."""
        common = self.by_rate.keys() & control.by_rate.keys()
        if not common:
            return None
        own, other = (min(row.by_rate[rate].loss for rate in common) for row in (self, control))
        return math.exp(own - other)

    def cells(self, rates: list[float]) -> list[str]:
        """Its perplexity at each."""
        return [f"{math.exp(self.by_rate[rate].loss):.2f}" if rate in self.by_rate else "" for rate in rates]

    @property
    def best(self) -> float:
        """The lowest loss."""
        return min(record.loss for record in self.by_rate.values())


def by_method(*folders: str) -> dict[str, Screened]:
    """The runs of some folders below results/."""
    found: dict[str, dict[float, Record]] = {}
    for record in load_records([RESULTS / folder for folder in folders]):
        found.setdefault(record.config.method.name, {})[record.config.optim.lr] = record
    return {name: Screened(by_rate) for name, by_rate in found.items()}


def rates_and_cells(found: dict[str, Screened]) -> tuple[list[float], dict[str, list[str]]]:
    """All rates in order, and the perplexity of every method at each."""
    rates = sorted({rate for row in found.values() for rate in row.by_rate})
    return rates, {name: row.cells(rates) for name, row in found.items()}


def stronger_controls() -> str:
    """What half-length runs of one seed say of baselines that are helped, beside the arm that they are held against."""
    found = by_method("confirmation/docs-small/tuning", "confirmation/docs-controls/tuning")
    rates, cells = rates_and_cells(found)
    arm = found["oelm-lowrank"].best
    lines = [
        f"| method | {' | '.join(f'at {rate:g}' for rate in rates)} | best, to `oelm-lowrank` |",
        f"|---|{'---:|' * len(rates)}---:|",
    ]
    for name, row in sorted(found.items(), key=lambda row: -row[1].best):
        lines.append(f"| `{name}` | {' | '.join(cells[name])} | ×{math.exp(row.best - arm):.3f} |")
    return "\n".join(lines)


EQUIPPED = "baseline+shift+gain"
"""What the arms on technical prose are shown beside."""
TUNED = {
    "docs-small": "technical prose",
    "docs-long": "technical prose",
    "docs-larger": "technical prose, width 256, 6 layers",
    "docs-llama": "technical prose, Llama style",
    "tinystories-small": "TinyStories",
}
"""Confirmations whose rates were chosen in runs of one seed, and what they train on."""


def at_every_rate() -> str:
    """Perplexity of the primary arm and its control in the runs that chose their rates, and their ratio at each."""
    found = {study: by_method(f"confirmation/{study}/tuning") for study in TUNED}
    rates = sorted({rate for methods in found.values() for rate in methods[EQUIPPED].by_rate})
    lines = [
        f"| text, steps | method | {' | '.join(f'at {rate:g}' for rate in rates)} |",
        f"|---|---|{'---:|' * len(rates)}",
    ]
    for study, methods in found.items():
        where = f"{TUNED[study]}, {methods[EQUIPPED].record.config.train.steps:,}"
        lines += [f"| {where} | `{name}` | {' | '.join(methods[name].cells(rates))} |" for name in (EQUIPPED, ARM)]
        arm, control = methods[ARM].by_rate, methods[EQUIPPED].by_rate
        both = arm.keys() & control.keys()
        ratios = (f"×{math.exp(arm[rate].loss - control[rate].loss):.3f}" if rate in both else "" for rate in rates)
        lines.append(f"| {where} | ratio | {' | '.join(ratios)} |")
    return "\n".join(lines)


def on_technical_prose() -> dict[str, Arm]:
    """Arms of two studies that share data, batches, seeds and length; of an arm in both, docs-small's runs."""
    studies = ("confirmation/docs-controls", "confirmation/docs-small")
    return {arm.label: arm for study in studies for group in report_of(study).groups for arm in group.arms}


def beside(control: str) -> dict[str, Estimate | None]:
    """Each of them against one: as its study judged it where that is its control, else by itself."""
    arms = on_technical_prose()
    other = arms.pop(control)
    judged = {
        row.arm.label: row.estimate
        for group in report_of("confirmation/docs-small").groups
        for row in group.findings
        if row.control is not None and row.control.label == control and row.measure == PERPLEXITY
    }
    return {name: judged.get(name) or estimate_pair(arm, other, PERPLEXITY, "") for name, arm in arms.items()}


def after_4000_steps() -> str:
    """Perplexity on technical prose, each arm at its own rate, beside the equipped and the plain baseline."""
    arms, to_equipped, to_plain = on_technical_prose(), beside(EQUIPPED), beside("baseline")
    lines = [
        f"| method | Q/K weights trained | rate | perplexity by seed | to `{EQUIPPED}`, 95 % | to `baseline`, 95 % |",
        "|---|---:|---:|---|---:|---:|",
    ]
    for name, arm in sorted(arms.items(), key=lambda row: -fmean(record.loss for record in row[1].records)):
        share = arm.record.counts.trained_query_key_share or 0.0
        shown = [f"`{name}`", f"{100 * share:.1f} %", f"{arm.config.optim.lr:.2g}", _by_seed(arm)]
        lines.append(f"| {' | '.join([*shown, _ratio(to_equipped.get(name)), _ratio(to_plain.get(name))])} |")
    return "\n".join(lines)


AT_BOTH_RATES = ("oelm", "oelm-random-matched", "blind", "baseline")
"""The arms of docs-rates, which docs-small has too."""


def frozen_at_two_rates() -> str:
    """Frozen Q/K and the baseline on technical prose: runs of docs-small, judged there, and others, by themselves."""
    (small,), (other,) = (report_of(study).groups for study in ("confirmation/docs-small", "screening/docs-rates"))
    baseline, judged = on_technical_prose()["baseline"], beside("baseline")
    arms = {(arm.config.optim.lr, arm.label): arm for group in (small, other) for arm in group.arms}
    lines = [
        f"| method | rate | perplexity by seed | to `baseline` at {baseline.config.optim.lr:.2g}, 95 % "
        "| to `baseline` at this rate, 95 % | to random at this rate, 95 % |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for (rate, label), arm in sorted(arms.items()):
        if label not in AT_BOTH_RATES:
            continue
        shown = [judged.get(label) if arm in small.arms else estimate_pair(arm, baseline, PERPLEXITY, "")]
        at_this_rate = (arms.get((rate, name)) for name in ("baseline", "oelm-random-matched"))
        shown += [None if one in (None, arm) else estimate_pair(arm, one, PERPLEXITY, "") for one in at_this_rate]
        lines.append(f"| `{label}` | {rate:.2g} | {_by_seed(arm)} | {' | '.join(map(_ratio, shown))} |")
    return "\n".join(lines)


LONG_STUDIES = ("confirmation/docs-long", "screening/docs-long-rates")
"""The plan's own, and rates that were asked after its first pair."""
LONG_AGAIN = "confirmation/docs-long-own-rates"
"""At the best of these rates, with other seeds and the other half of the validation documents."""


def long_runs(*studies: str) -> str:
    """Every long run: validation perplexity along the way, and in the end to the first study's control of its seed."""
    arms = [arm for study in studies for group in report_of(study).groups for arm in group.arms]
    runs = sorted(
        (record for arm in arms for record in arm.records),
        key=lambda run: (run.config.method.name, -run.config.optim.lr, run.config.seed),
    )
    (control,) = (arm for arm in report_of(studies[0]).groups[0].arms if arm.label == EQUIPPED)
    ends = {record.config.seed: record.loss for record in control.records}
    steps = [point.step for point in control.record.curve]
    lines = [
        f"| method | rate | seed | {' | '.join(f'{step:,} steps' for step in steps)} | to `{EQUIPPED}` of that seed |",
        f"|---|---:|---:|{'---:|' * len(steps)}---:|",
    ]
    for run in runs:
        method, seed, end = run.config.method.name, run.config.seed, ends.get(run.config.seed)
        perplexities = [f"{math.exp(point.loss):.2f}" for point in run.curve]
        ratio = "" if end is None or run in control.records else f"×{math.exp(run.loss - end):.3f}"
        lines.append(
            f"| {' | '.join([f'`{method}`', f'{run.config.optim.lr:.2g}', str(seed), *perplexities, ratio])} |"
        )
    return "\n".join(lines)


@dataclass(frozen=True)
class Compared:
    """A row of README's table on training from scratch: an arm of a study below results/, and where it was trained."""

    study: str
    arm: str
    """Its label there."""
    where: str
    beside: str = ""
    """The study that has its control, if that is another one; then no plan has that pair."""


FROM_SCRATCH = (
    Compared("confirmation/docs-small", "oelm-lowrank", "technical prose, 4,000"),
    Compared("confirmation/docs-larger", "oelm-lowrank", "same, width 256"),
    Compared("confirmation/docs-long", "oelm-lowrank", "technical prose, 16,000"),
    Compared(LONG_AGAIN, "oelm-lowrank", "16,000, rates tried in whole runs"),
    Compared("confirmation/tinystories-small", "oelm-lowrank", "TinyStories, 4,000"),
    Compared("confirmation/docs-llama", "oelm-lowrank", "technical prose, Llama style"),
    Compared("confirmation/docs-controls", "oelm-lowrank+norm", "technical prose, 4,000"),
    Compared("confirmation/docs-small", "oelm", "technical prose, 4,000"),
    Compared("screening/docs-rates", "oelm", "same, a tenth of the rate", "confirmation/docs-small"),
)


def from_scratch() -> str:
    """What leaving out Q and K, or freezing them, cost in perplexity: as judged in each study, or by itself."""
    lines = [
        "| method | beside | text, steps | perplexity ratio, 95 % | seeds | verdict |",
        "|---|---|---|---:|---:|---|",
    ]
    for row in FROM_SCRATCH:
        found = _finding(row.study, row.arm)
        method, control, estimate, said = found.arm.method.name, found.control, found.estimate, str(found.verdict)
        if row.beside:
            control = _finding(row.beside, method).control
            assert control is not None
            estimate, said = estimate_pair(found.arm, control, PERPLEXITY, ""), "compared afterwards"
        assert control is not None
        seeds = len(set(found.arm.seeds) & set(control.seeds))
        shown = [f"`{method}`", f"`{control.label}`", row.where, _ratio(estimate), str(seeds), said]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines)


def _finding(study: str, label: str) -> Finding:
    """What a study found of an arm's perplexity."""
    (group,) = report_of(study).groups
    (found,) = (each for each in group.findings if each.arm.label == label and each.measure == PERPLEXITY)
    return found


def _by_seed(arm: Arm) -> str:
    return ", ".join(f"{record.result.measures['perplexity']:.2f}" for record in arm.records)


def _ratio(found: Estimate | None) -> str:
    """A ratio and its interval, where there are seeds enough for one."""
    if found is None:
        return ""
    ends = "" if found.ends is None else " ({:.3f} to {:.3f})".format(*found.ends)
    return f"×{found.value:.3f}{ends}"


def screened() -> dict[str, Screened]:
    """Finished runs of the screening by method, the least trained Q/K weights first."""
    rows = by_method("screening/tinystories")
    return dict(sorted(rows.items(), key=lambda row: (row[1].record.counts.trained_query_key_share or 0.0, row[0])))


def screening() -> str:
    """Every arm of the screening beside the control that carries the same extras, at their best rates."""
    found = screened()
    rates, cells = rates_and_cells(found)
    lines = [
        f"| method | Q/K weights trained | {' | '.join(f'at {rate:g}' for rate in rates)} | to its control | FLOPs |",
        f"|---|---:|{'---:|' * len(rates)}---:|---:|",
    ]
    for name, row in found.items():
        control = found.get(control_of(parse_method(name)))
        ratio = None if control is None or control is row else row.ratio(control)
        share, flops = row.record.counts.trained_query_key_share or 0.0, row.record.flops
        needed = f"{1 - (flops.saved_share if flops else 0.0):.3f}"
        shown = [f"{100 * share:.1f} %", *cells[name], "" if ratio is None else f"{ratio:.3f}", needed]
        lines.append(f"| `{name}` | {' | '.join(shown)} |")
    return "\n".join(lines)


@dataclass(frozen=True)
class Priced:
    """A point of the frontier: what a method trains of Q and K, what it computes, what it costs."""

    method: str
    trained: float
    """Weights on the Q/K side, % of the baseline's Q and K."""
    needed: float
    """FLOPs of a training step, % of the baseline's."""
    ratio: float
    """Of perplexity to `baseline+shift+gain`."""
    ends: tuple[float, float] | None


def _priced(record: Record, ratio: float, ends: tuple[float, float] | None) -> Priced:
    saved = record.flops.saved_share if record.flops else 0.0
    share = record.counts.trained_query_key_share or 0.0
    return Priced(record.config.method.name, 100 * share, 100 * (1 - saved), ratio, ends)


def priced_by_screening() -> list[Priced]:
    """One seed each, so no interval."""
    found = screened()
    equipped = found.pop("baseline+shift+gain")
    ratios = {name: row.ratio(equipped) for name, row in found.items()}
    return [_priced(found[name].record, ratio, None) for name, ratio in ratios.items() if ratio is not None]


def priced_by_confirmation() -> list[Priced]:
    """Arms with three seeds or more."""
    arms = on_technical_prose()
    return [
        _priced(arms[name].record, each.value, each.ends)
        for name, each in beside(EQUIPPED).items()
        if each is not None and each.ends is not None and len(arms[name].seeds) >= PAIRS_FOR_VERDICT
    ]


GOAL = PERPLEXITY.criterion or 1.0
"""Perplexity to its control's that is still called non-inferior."""
_OVER_LINES = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}


def write_prices() -> None:
    """README's picture, of the confirmation, and that of the screening."""
    seeds = "technical prose, 4,000 steps, three or five seeds, 95 % intervals"
    _draw_prices(priced_by_confirmation(), seeds, ROOT / "docs/plots/frontier.svg")
    _draw_prices(priced_by_screening(), "TinyStories, 2,000 steps, one seed", ROOT / "docs/plots/screening.svg")


def _draw_prices(rows: list[Priced], title: str, path: Path) -> None:
    """Perplexity ratio against trained Q/K weights, and against arithmetic."""
    figure = new_figure()
    figure.set_size_inches(9.6, 4.0)
    figure.suptitle(title, fontsize=9)
    weights, arithmetic = figure.subplots(1, 2, sharey=True)
    for axes, place in ((weights, "trained"), (arithmetic, "needed")):
        _draw_points(axes, {row.method: getattr(row, place) for row in rows}, rows)
        lowest, _ = axes.get_ylim()
        axes.axhspan(lowest, GOAL, color="tab:green", alpha=0.12, linewidth=0)
        axes.axhline(1.0, color="grey", linewidth=1, zorder=1)
        axes.set_ylim(bottom=lowest)
    weights.annotate(
        f"within {100 * (GOAL - 1):.0f} % of {EQUIPPED}, or better", (0.98, GOAL), (0, 3),
        xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=8, ha="right", color="tab:green",
    )  # fmt: skip
    weights.set_xticks(range(0, 101, 25))
    weights.set_xlabel("trained weights on the Q/K side, % of the baseline's Q and K")
    arithmetic.set_xlabel("FLOPs of a training step, % of the baseline's")
    weights.set_ylabel("perplexity / baseline+shift+gain")
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def _draw_points(axes: Any, places: dict[str, float], rows: list[Priced]) -> None:
    """Points with intervals; their names stand towards the middle at the end of a line, below the one above."""
    axes.set_ymargin(0.12)
    middle = (min(places.values()) + max(places.values())) / 2
    room = 0.07 * (max(row.ratio for row in rows) - min(row.ratio for row in rows))
    last = {"left": math.inf, "right": math.inf}
    for row in sorted(rows, key=lambda row: -row.ratio):
        low, high = row.ends or (row.ratio, row.ratio)
        axes.errorbar(
            [places[row.method]], [row.ratio], [[row.ratio - low], [high - row.ratio]],
            fmt="o", markersize=5, capsize=3 if row.ends else 0, color="tab:red" if row.ends else "tab:blue", alpha=0.8,
        )  # fmt: skip
        side, offset = ("left", 26) if places[row.method] < middle else ("right", -26)
        last[side] = min(row.ratio, last[side] - room)
        axes.annotate(
            row.method.replace(f"{EQUIPPED}+", "shift+gain+"),  # there is no room for all of it
            (places[row.method], row.ratio), (offset, last[side]), textcoords=("offset points", "data"),
            fontsize=8, ha=side, va="center", bbox=_OVER_LINES, zorder=1.5,
            arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": "grey", "shrinkA": 0, "shrinkB": 4},
        )  # fmt: skip


OPEN_QUESTIONS = "open-questions-longer"
ASKED = {
    "": ("baseline", "oelm", "blind"),
    "where and when they are trained": (
        "orthogonal-trained", "oelm+all-but-last=1", "oelm+all-but-last=2", "oelm+thaw=0.2..0.8", "oelm+every=10",
    ),
    "how much is frozen": ("oelm+freeze=0.25", "oelm+freeze=0.5", "oelm-ffn"),
    "rates by layer": ("baseline+layer-lr=0.75", "oelm+layer-lr=0.75"),
    "warm-up of 5 %": ("baseline-warmup=50", "oelm-warmup=50"),
    "width 64": ("baseline-width=64", "oelm-width=64"),
    "width 256": ("baseline-width=256", "oelm-width=256"),
}  # fmt: skip
"""What its arms ask, by their names in the plan."""


def open_questions() -> str:
    """Every arm of the original's open questions beside the baseline under its settings, and arithmetic saved."""
    found = {cell_of(row.arm.config): row for group in report_of(OPEN_QUESTIONS).groups for row in group.findings}
    lines = [
        "| question | arm | rate | perplexity by seed | to its baseline, 95 % | verdict | FLOPs saved |",
        "|---|---|---:|---|---:|---|---:|",
    ]
    for question, names in ASKED.items():
        for name in names:
            row = found.pop(name)
            flops, rate = row.arm.record.flops, f"{row.arm.config.optim.lr:.2g}"
            saved = f"{100 * (flops.saved_share if flops else 0.0):.1f} %"
            said = str(row.verdict) if row.control else ""
            shown = [question, f"`{name}`", rate, _by_seed(row.arm), _ratio(row.estimate), said, saved]
            lines.append(f"| {' | '.join(shown)} |")
    assert not found, f"arms without a question: {list(found)}"
    return "\n".join(lines)


PROBES = {"retrieval": "30-pair retrieval", "induction-1": "one hop", "induction-2": "two hops"}
"""Data of results/probes and results/induction-2, and their heads in the table."""


def probes() -> str:
    """Exact answers of every arm in every probe, mean over seeds, beside what was published."""
    groups = {group.data: group for study in ("probes", "induction-2") for group in report_of(study).groups}
    found = {data: {row.arm.label: row for row in groups[data].findings} for data in PROBES}
    lines = [
        "| method | control | " + " | ".join(f"{words} | points to control, 95 %" for words in PROBES.values()) + " |",
        "|---|---|" + "---:|---:|" * len(PROBES),
    ]
    for name, first in next(iter(found.values())).items():
        shown = [f"`{name}`", f"`{first.control.label}`" if first.control else ""]
        for data in PROBES:
            row = found[data][name]
            shown += [f"{100 * (row.mean or 0):.1f} %", _points(row)]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines)


def _points(row: Finding) -> str:
    if row.estimate is None or row.estimate.ends is None:
        return ""
    return f"{row.estimate.value:+z.1f} ({row.estimate.ends[0]:+z.1f} to {row.estimate.ends[1]:+z.1f})"


def modifiers() -> str:
    """Every `+...` of a method's name: what it does, what it trains in Medium-512, and if a fair control has it too."""
    of_a_control = {text.partition("=")[0] for text in CARRIED.values() if text}
    extras, changes_rates = {*CARRIED, *of_a_control}, {"layer-lr", "qk-lr"}
    lines = ["| written | what it does | trains in Medium-512 | in the control too |", "|---|---|---:|---|"]
    for key, (_, usage) in MODIFIERS.items():
        written, _, does = usage.partition(": ")
        value = re.match(r"\+[\w-]+=([\d.]+)", written)
        named = f"baseline+{key}={value[1]}" if value else f"baseline+{key}"
        added = f"{trained_weights(named) - trained_weights('baseline'):+,}" if key in extras - changes_rates else ""
        carried = "yes" if key in of_a_control else "no: it stands for Q and K" if key in extras else ""
        lines.append(f"| `{written}` | {does} | {added} | {carried} |")
    return "\n".join(lines)


def pretrained_methods() -> str:
    """The methods that need pre-trained matrices, in the words of `oelm methods`."""
    rows = [f"| `{name}` | {SUMMARIES[name].partition(': ')[2]} |" for name in PRETRAINED_METHODS]
    return "\n".join(["| method | what is trained or frozen |", "|---|---|", *rows])


def trained_weights(method: str) -> int:
    """Of Medium-512."""
    size = TrainRequest(size="medium-512", seq_len=512)
    return count_weights(model_config(size, GPT2_VOCABULARY), parse_method(method), total_steps=1).trained


TABLES: dict[str, Callable[[], str]] = {
    "every modifier": modifiers,
    "methods for pre-trained models": pretrained_methods,
    "the probes": probes,
    "the screening": screening,
    "the original's open questions": open_questions,
    "stronger controls": stronger_controls,
    "at every rate": at_every_rate,
    "technical prose after 4,000 steps": after_4000_steps,
    "frozen Q/K at two rates": frozen_at_two_rates,
    "four times as long": lambda: long_runs(*LONG_STUDIES),
    "four times as long, again": lambda: long_runs(LONG_AGAIN),
    "from scratch": from_scratch,
    "what the confirmed models answer": lambda: answers(SMALL, report_of("confirmation/docs-small")),
    "what the larger models answer": lambda: answers(LARGER),
    "where their loss differs": lambda: loss_by_part(SMALL),
    "where the larger models' loss differs": lambda: loss_by_part(LARGER),
    "where their heads look": where_heads_look,
    "ways to fine-tune": ways_to_finetune,
    "make fuzz faults soak startup": reliability,
    "make simulations": simulations,
    "every key of a study file": reference,
}
DOCUMENTS = ("methods", "evidence", "findings", "finetuning", "speed", "study-file", "reliability")
FILES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in DOCUMENTS))
ONLY_TABLE = " (the table)"
NOT_IN_README = ("perplexity by seed", "bits per byte", "another text", "ms/step")
PAGES = (
    "quickstart",
    "tinystories",
    "sst2-confirmation",
    "smollm2",
    "confirmation/docs-small",
    "confirmation/docs-larger",
    "confirmation/docs-controls",
    "confirmation/tinystories-small",
    "confirmation/docs-llama",
    "open-questions-longer",
    "probes",
    "induction-2",
)
"""Studies below results/ whose whole page stands in docs/pages."""


def region(command: str) -> str:
    """What a command prints, as the documents show it."""
    if command.endswith(ONLY_TABLE):
        return _narrow(region(command.removesuffix(ONLY_TABLE)).partition("<details>")[0])
    if command in TABLES:
        return TABLES[command]()
    if compared := re.fullmatch(r"oelm compare results/(\S+) --format md", command):
        return _folded(as_markdown(report_of(compared[1])))
    found = re.fullmatch(r"oelm bench --show results/bench/(\S+)\.json(?: --reference (\S+))? --format md", command)
    if found is None:
        raise ValueError(f"no table is known for `{command}`")
    return _bench(found[1], found[2])


def _narrow(markdown: str) -> str:
    """Without the columns that a README has no room for."""
    lines = markdown.splitlines()
    heads = next(line for line in lines if line.startswith("|")).split("|")
    kept = [place for place, head in enumerate(heads) if head.strip() not in NOT_IN_README]
    cells = ([line.split("|")[place] for place in kept] if line.startswith("|") else [line] for line in lines)
    return "\n".join("|".join(each) for each in cells)


def filled(text: str) -> str:
    """The text with every region `<!-- begin: COMMAND -->` ... `<!-- end -->` written anew."""

    def write(match: re.Match[str]) -> str:
        return f"<!-- begin: {match[1]} -->\n{region(match[1]).strip()}\n<!-- end -->"

    return re.sub(r"<!-- begin: (.*?) -->\n.*?<!-- end -->", write, text, flags=re.DOTALL)


def _folded(markdown: str) -> str:
    """The first table as it stands; the others and the sentences below them open at a click."""
    lines = markdown.strip().splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("|"))
    end = next((index for index in range(first, len(lines)) if not lines[index].startswith("|")), len(lines))
    rest = "\n".join(lines[end:]).strip()
    summary = "<summary>Every arm in a sentence, confounds, and how it was computed</summary>"
    return "\n".join([*lines[:end], "", "<details>", summary, "", rest, "", "</details>"])


def _bench(name: str, reference: str | None) -> str:
    """The tables of a speed record; how they were measured opens at a click."""
    record = read_record(RESULTS / "bench" / f"{name}.json")
    record = relative_to(record, reference) if reference else record
    found = sheets(record)
    tables = [f"*{sheet.title}*\n\n{sheet_markdown(sheet)}" for sheet in found]
    remarks = dict.fromkeys(remark for sheet in found for remark in sheet.remarks)
    listed = "\n".join(f"- {remark}" for remark in (f"{machine_line(record)}.", *remarks))
    summary = "<summary>What the columns are, and on what it was measured</summary>"
    return "\n\n".join([*tables, f"<details>\n{summary}\n\n{listed}\n\n</details>"])


def page_file(study: str) -> Path:
    """Where the page of a study stands."""
    return ROOT / "docs" / "pages" / f"{Path(study).name}.html"


def page(study: str) -> str:
    """The page of a study."""
    file = page_file(study).relative_to(ROOT).as_posix()
    return as_html(report_of(study), command=f"oelm report results/{study} -o {file}")


def write_plots_of_speed() -> None:
    """The plots of docs/speed.md."""
    for record in sorted((RESULTS / "bench").glob("*.json")):
        write_plots(read_record(record), ROOT / "docs/plots", record.stem)


if __name__ == "__main__":
    for path in FILES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    for study in PAGES:
        page_file(study).write_text(page(study), encoding="utf-8")
    write_plots_of_speed()
    write_prices()
