"""The answer of one experiment: the verdict in one sentence, and all arms on one axis."""

from collections.abc import Sequence

from oelm.report.groups import Group
from oelm.report.numerals import written_percent
from oelm.report.page.content import Figure, Forest, Lane, LaneGroup, SeedMark, Tick, Verdict
from oelm.report.page.prose import remarks_on, sentence_on
from oelm.report.page.readings import Reading
from oelm.report.page.scale import Scale, scale_around
from oelm.report.page.words import Words
from oelm.report.texts import Texts

WIDEST = 2.0
"""Ratios beyond this, and shares below its inverse, are drawn at the edge to spare the rest."""


def verdict_of(group: Group, headline: Reading | None, texts: Texts, words: Words) -> Verdict:
    """The answer to the experiment's question."""
    if headline is None:
        lone = [sentence_on(found, group, texts) for found in group.findings if not found.is_reference]
        sentence = lone[0] if lone else words.nothing_compared
        return Verdict(sentence, "no-verdict", (), "", (), words.confounds_heading, ())
    figures = [
        Figure(_estimate_name(group, words), headline.written_value),
        Figure(words.interval, headline.written_interval),
        Figure(words.pairs, str(headline.pairs)),
        Figure(words.share_wanted if group.accuracy else words.margin, _limit(group)),
    ]
    remarks = remarks_on(headline.finding, texts)
    return Verdict(
        sentence=sentence_on(headline.finding, group, texts),
        tone=tone(headline),
        figures=tuple(figures),
        seeds_heading=words.by_seed,
        seeds=tuple(SeedMark(seed, headline.written(value)) for seed, value in headline.by_seed.items()),
        beside_heading=words.confounds_heading,
        beside=remarks if headline.confounds else (words.no_confounds, *remarks),
    )


def forest_of(
    group: Group, readings: Sequence[Reading], colours: dict[str, int], texts: Texts, words: Words
) -> Forest | None:
    """Every compared arm with its interval and its seeds; None without any."""
    compared = [reading for reading in readings if reading.control is not None]
    if not compared:
        return None
    limit = _limit_value(group)
    scale = _shared_scale(compared, limit)
    headings = dict.fromkeys(_heading(reading, texts) for reading in compared)
    return Forest(
        title=_estimate_name(group, words),
        groups=tuple(
            LaneGroup(
                heading,
                tuple(
                    _lane(reading, scale, colours, texts, words)
                    for reading in compared
                    if _heading(reading, texts) == heading
                ),
            )
            for heading in headings
        ),
        ticks=tuple(Tick(scale.percent(tick), _tick(tick, group)) for tick in scale.ticks()),
        nothing=scale.percent(1),
        margin=scale.percent(limit),
        caption=words.forest_caption.format(margin=_limit(group)),
        explained="verdict" if len(compared) == 1 else "comparisons",
    )


def tone(reading: Reading) -> str:
    """The class of a verdict in `style.css`."""
    return reading.verdict.value.replace(" ", "-")


def _lane(reading: Reading, scale: Scale, colours: dict[str, int], texts: Texts, words: Words) -> Lane:
    def place(value: float | None) -> float | None:
        return None if value is None else scale.percent(value)

    count = len(reading.confounds)
    return Lane(
        label=reading.arm.label,
        colour=colours[reading.arm.label],
        is_primary=reading.is_primary,
        tone=tone(reading),
        verdict=texts.verdict_names[reading.verdict],
        estimate=reading.written_value,
        interval=reading.written_interval,
        confounds=words.confound_count.format(count=count) if count else "",
        middle=place(reading.value),
        lower=place(reading.lower),
        upper=place(reading.upper),
        seeds=tuple(SeedMark(seed, reading.bare(value), place(value)) for seed, value in reading.by_seed.items()),
    )


def _shared_scale(readings: Sequence[Reading], limit: float) -> Scale:
    ends = [end for reading in readings for end in (reading.lower, reading.upper, reading.value) if end is not None]
    values = [1.0, limit, *ends, *(value for reading in readings for value in reading.by_seed.values())]
    return scale_around(min(max(value, 1 / WIDEST), max(WIDEST, limit)) for value in values)


def _heading(reading: Reading, texts: Texts) -> str:
    assert reading.control is not None
    against = texts.against.format(control=reading.control.label)
    return f"{reading.evaluation} · {against}" if reading.evaluation else against


def _estimate_name(group: Group, words: Words) -> str:
    return words.share_kept if group.accuracy else words.ratio


def _limit_value(group: Group) -> float:
    if group.comparison is not None:
        return group.comparison.margin
    assert group.accuracy is not None
    return group.accuracy.share


def _limit(group: Group) -> str:
    """The margin or the share to be kept, in words."""
    limit = _limit_value(group)
    return f"{100 * limit:g} %" if group.accuracy else f"×{limit:g}"


def _tick(value: float, group: Group) -> str:
    return written_percent(value).replace(".0 ", " ") if group.accuracy else f"{value:g}"
