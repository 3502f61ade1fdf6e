"""Views of what an experiment cost: result against weights, FLOPs and time; speed and memory beside the bound."""

from collections.abc import Callable, Sequence

from oelm.config.record import Record
from oelm.report.arms import Arm
from oelm.report.groups import Group
from oelm.report.numerals import written_count, written_milliseconds, written_percent
from oelm.report.page.content import Cell, Column, Dot, Plot, Section, Table, Tick
from oelm.report.page.measured import Colours, arm_cell
from oelm.report.page.scale import scale_around
from oelm.report.page.words import Words
from oelm.report.sentences import bound_sentence
from oelm.report.texts import Texts

Point = tuple[Arm, int, float, float]
"""Arm, seed, what it used, what it reached."""


def resources_section(group: Group, colours: Colours, words: Words) -> Section | None:
    """What each arm reached against what it used; None where nothing is known of it."""
    axes: tuple[tuple[str, Callable[[Arm, Record], float | None], Callable[[float], str]], ...] = (
        (words.trained_weights, lambda arm, _: float(arm.ever_trained), lambda value: written_count(round(value))),
        (words.training_flops, lambda _, run: run.flops.run if run.flops else None, _flops),
        (words.training_time, lambda _, run: run.timing.training_seconds, written_time),
    )
    reached = _reached(group)
    up = words.accuracy if group.accuracy else words.loss
    plots = []
    for across, used, written in axes:
        points = [
            (arm, run.config.seed, cost, reached[arm.label, run.config.seed])
            for arm in group.arms
            for run in arm.records
            if (cost := used(arm, run)) is not None and (arm.label, run.config.seed) in reached
        ]
        if len({arm.label for arm, *_ in points}) > 1:
            plots.append(_plot(points, across, up, written, colours, words))
    if not plots:
        return None
    legend = tuple(arm_cell(arm, colours) for arm in group.arms)
    return Section("resources", words.resources, words.resources_lead, plots=tuple(plots), legend=legend)


def speed_section(group: Group, colours: Colours, texts: Texts, words: Words) -> Section | None:
    """Time and memory beside what arithmetic allows; None where nothing of it is known."""
    if all(row.flops_saved_share is None and row.step_seconds is None for row in group.speed):
        return None
    columns = (
        Column(words.arm),
        Column(words.flops_saved, number=True),
        Column(words.time_saved, number=True),
        Column(words.step_time, number=True),
        Column(words.tokens_per_second, number=True),
        Column(words.validation_share, number=True),
        Column(words.peak_memory, number=True),
        Column(words.memory_saved, number=True),
    )
    rows = tuple(
        (
            arm_cell(row.arm, colours),
            Cell(written_percent(row.flops_saved_share)),
            Cell(written_percent(row.time_saved_share)),
            Cell(written_milliseconds(row.step_seconds)),
            Cell("-" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}"),
            Cell(written_percent(row.validation_share)),
            Cell(_bytes(row.peak_bytes)),
            Cell(written_percent(row.memory_saved_share)),
        )
        for row in group.speed
    )
    remarks = tuple(sentence for row in group.speed if (sentence := bound_sentence(row, texts)))
    return Section("speed", words.speed, words.speed_lead, remarks=remarks, tables=(Table(columns, rows),))


def written_time(seconds: float) -> str:
    """In the unit that a reader would choose."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _reached(group: Group) -> dict[tuple[str, int], float]:
    """Loss, or accuracy in percent on the first evaluation set, by arm and seed."""
    if group.accuracy is not None:
        first = group.accuracy.findings[0].evaluation if group.accuracy.findings else ""
        return {
            (found.arm.label, seed): 100 * value
            for found in group.accuracy.findings
            if found.evaluation == first
            for seed, value in found.by_seed.items()
        }
    return {(arm.label, seed): loss for arm in group.arms for seed, loss in arm.losses.items()}


def _plot(
    points: Sequence[Point], across: str, up: str, written: Callable[[float], str], colours: Colours, words: Words
) -> Plot:
    x = scale_around(used for _, _, used, _ in points)
    y = scale_around(reached for *_, reached in points)
    seeds = [
        Dot(
            x.percent(used),
            y.percent(reached),
            colours[arm.label],
            f"{arm.label}, {words.seed.format(seed=seed)}: {reached:.4g}, {written(used)}",
            filled=False,
        )
        for arm, seed, used, reached in points
    ]
    means = []
    for arm in dict.fromkeys(arm.label for arm, *_ in points):
        own = [(used, reached) for each, _, used, reached in points if each.label == arm]
        used, reached = (sum(values) / len(own) for values in zip(*own, strict=True))
        words_of_dot = f"{arm}, {words.mean}: {reached:.4g}, {written(used)}"
        means.append(Dot(x.percent(used), y.percent(reached), colours[arm], words_of_dot))
    return Plot(
        across=across,
        up=up,
        x_ticks=tuple(Tick(x.percent(tick), written(tick)) for tick in x.ticks(4)),
        y_ticks=tuple(Tick(y.percent(tick), f"{tick:g}") for tick in y.ticks(4)),
        dots=(*seeds, *means),
    )


def _flops(value: float) -> str:
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def _bytes(count: int | None) -> str:
    if count is None:
        return "-"
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
