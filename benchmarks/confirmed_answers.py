"""What the confirmed arm and its control answered when `oelm eval` asked them: tables of docs/findings.md."""

from pathlib import Path
from statistics import fmean

from oelm.config.evaluated import EVALUATION_FILE, EvaluationFile, Suite, SuiteResult
from oelm.config.measure import CompareScale, Measure
from oelm.report.findings import Finding
from oelm.report.groups import Report

RESULTS = Path(__file__).resolve().parents[1] / "results"
SMALL = RESULTS / "confirmation" / "docs-small"
LARGER = RESULTS / "answers" / "docs-larger"
"""Apart from its records, whose intervals are not to be widened by what was asked afterwards."""
START = RESULTS / "screening" / "docs-start"
"""The models of docs-small as their seeds start them."""
CONTROL, ARM = "baseline+shift+gain", "oelm-lowrank"
Pairs = list[tuple[SuiteResult, SuiteResult]]
"""The control's answer and the arm's, one pair for each seed."""


def asked(study: Path) -> dict[tuple[Suite, str], Pairs]:
    """By suite and set."""
    control, arm = (_by_seed(study, name) for name in (CONTROL, ARM))
    return {
        place: [(theirs[place], ours[place]) for theirs, ours in zip(control, arm, strict=True)] for place in control[0]
    }


def _by_seed(study: Path, name: str) -> list[dict[tuple[Suite, str], SuiteResult]]:
    return [_results(file.parent) for file in sorted((study / "final").glob(f"{name}-seed*/{EVALUATION_FILE}"))]


def _results(folder: Path) -> dict[tuple[Suite, str], SuiteResult]:
    file = EvaluationFile.model_validate_json((folder / EVALUATION_FILE).read_text(encoding="utf-8"))
    return {(result.suite, result.evaluation.name): result for result in file.results}


def answers(study: Path, report: Report | None = None) -> str:
    """Means over seeds; where a measure is judged, the difference with the interval of the study's report."""
    found_by = report.groups[0].findings if report else ()
    judged = {(row.measure.name, row.on): row for row in found_by if row.arm.label == ARM}
    last = " difference, 95 % after Holm |" if report else ""
    lines = [f"| asked | `{CONTROL}` | `{ARM}` |{last}", "|---|---:|---:|" + ("---:|" if report else "")]
    for (_, on), pairs in asked(study).items():
        for measure in pairs[0][0].measures:
            means = (
                fmean(result.evaluation.measures[measure.name] for result in side) for side in zip(*pairs, strict=True)
            )
            shown = [_figure(mean, measure) for mean in means]
            if report:
                shown.append(_difference(judged.get((measure.name, on))))
            lines.append(f"| {on}: {measure.title.english} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _figure(value: float, measure: Measure) -> str:
    return f"{100 * value:.1f} %" if measure.percent else f"{value:.{measure.decimals}f}"


def _difference(found: Finding | None) -> str:
    if found is None or found.estimate is None or found.estimate.ends is None:
        return ""
    estimate, (low, high) = found.estimate, found.estimate.ends
    if estimate.scale is CompareScale.RATIO:
        return f"×{estimate.value:.3f} ({low:.3f} to {high:.3f})"
    return f"{estimate.value:+.1f} points ({low:+.1f} to {high:+.1f})"


def loss_by_part(study: Path) -> str:
    """How much lower the arm's loss is, by tokens seen and by how often a token occurs, with the range over seeds."""
    lines = ["| | tokens | loss of the control | difference | lowest and highest seed |", "|---|---:|---:|---:|---:|"]
    for (suite, _), pairs in asked(study).items():
        if suite is not Suite.LIKELIHOOD:
            continue
        for place, part in enumerate(pairs[0][0].parts):
            losses = [(a.parts[place].measures["text_loss"], b.parts[place].measures["text_loss"]) for a, b in pairs]
            gaps = [ours - theirs for theirs, ours in losses]
            what = f"{part.by.removeprefix('by ')}: {part.name}"
            control = fmean(theirs for theirs, _ in losses)
            row = (f"{part.count:,}", f"{control:.3f}", f"{fmean(gaps):+.3f}", f"{min(gaps):+.3f}, {max(gaps):+.3f}")
            lines.append(f"| {what} | {' | '.join(row)} |")
    return "\n".join(lines)


LOOKS = 0.2
"""The share of its attention from which on a head is said to look somewhere."""


def where_heads_look() -> str:
    """Before the first step and after the last, mean over seeds: the best head's attention, and how many heads look."""
    lines = [
        "| method | | previous token | same token | behind the same token "
        f"| heads with {100 * LOOKS:.0f} % there | entropy |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name, study, when in (
        *((name, study, when) for name in (CONTROL, ARM) for study, when in ((START, "before"), (SMALL, "after"))),
        ("baseline", START, "before"),
        ("oelm", START, "before"),
        ("blind", START, "before"),
        *((name, LARGER, "after, width 256, 6 layers") for name in (CONTROL, ARM)),
    ):
        asked = [row[Suite.ATTENTION, "repeated-tokens"] for row in _by_seed(study, name)]
        best = {key: fmean(one.evaluation.measures[key] for one in asked) for key in asked[0].evaluation.measures}
        entropy = best.pop("attention_entropy")
        heads = fmean(sum(part.measures["attention_induction"] >= LOOKS for part in one.parts) for one in asked)
        shown = [f"{100 * share:.1f} %" for share in best.values()]
        lines.append(f"| `{name}` | {when} | {' | '.join(shown)} | {heads:.1f} | {100 * entropy:.0f} % |")
    return "\n".join(lines)
