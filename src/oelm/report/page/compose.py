"""From a report to the content of the page in one language."""

from collections.abc import Sequence

from markupsafe import Markup

from oelm.report.groups import Group
from oelm.report.page.across import (
    beside_section,
    environment_section,
    overview_section,
    trends_section,
    tuning_section,
)
from oelm.report.page.answers import forest_of, verdict_of
from oelm.report.page.colours import colours_of
from oelm.report.page.content import Content, Experiment, Section
from oelm.report.page.costs import resources_section, speed_section
from oelm.report.page.curves import curve_data, safe_json
from oelm.report.page.inspections import ablation_section, audit_section, geometry_section
from oelm.report.page.measured import arm_cell, comparisons_section, measured_section
from oelm.report.page.prose import footnotes_of
from oelm.report.page.readings import headline_of, readings_of
from oelm.report.page.reproduce import commands_of
from oelm.report.page.words import WORDS, Words
from oelm.report.report import Report
from oelm.report.sentences import group_title
from oelm.report.texts import TEXTS, Language, Texts


def compose(report: Report, language: Language, command: str) -> Content:
    """All that the page says in one language; `command` is the one that makes the page."""
    texts, words = TEXTS[language], WORDS[language]
    sections = (
        trends_section(report, texts, words),
        beside_section(report, words),
        tuning_section(report, words),
        environment_section(report, words),
        _reproduce(report, words, command),
    )
    return Content(
        title=_title(report),
        facts=_facts(report, words),
        overview=overview_section(report, texts, words),
        experiments=tuple(
            _experiment(group, str(place), len(report.groups) > 1, texts, words)
            for place, group in enumerate(report.groups)
        ),
        sections=_present(sections),
        footnotes=footnotes_of(report, texts),
    )


def curves_of(report: Report) -> Markup:
    """The curves of all experiments, in the order of `Content.experiments`."""
    return safe_json(
        [curve_data(group.arms, _controls(group), colours_of(group.arms), _margin(group)) for group in report.groups]
    )


def _experiment(group: Group, anchor: str, is_one_of_many: bool, texts: Texts, words: Words) -> Experiment:
    colours, readings = colours_of(group.arms), readings_of(group)
    title = group_title(group, texts) if is_one_of_many or group.source == "reported" else ""
    has_curves = any(len(record.curve) > 0 for arm in group.arms for record in arm.records)
    return Experiment(
        anchor=anchor,
        title=title,
        verdict=verdict_of(group, headline_of(readings), texts, words),
        forest=forest_of(group, readings, colours, texts, words),
        before=(measured_section(group, colours, words),),
        legend=tuple(arm_cell(arm, colours) for arm in group.arms) if has_curves else (),
        measures=_measures(group, words),
        after=_present(
            (
                comparisons_section(group, texts, words),
                ablation_section(group, colours, texts, words),
                resources_section(group, colours, words),
                speed_section(group, colours, texts, words),
                audit_section(group, colours, words),
                geometry_section(group, colours, words),
            )
        ),
    )


def _present(sections: Sequence[Section | None]) -> tuple[Section, ...]:
    return tuple(section for section in sections if section is not None)


def _measures(group: Group, words: Words) -> tuple[tuple[str, str], ...]:
    """Bits per byte only where bytes are known; perplexity and ratios only of language models."""
    shown = {"loss"}
    if group.comparison is not None:
        shown |= {"perplexity", "ratio"}
        if any(arm.records[0].bytes_per_token for arm in group.arms):
            shown.add("bits")
    return tuple(choice for choice in words.measure_choices if choice[0] in shown)


def _controls(group: Group) -> dict[str, str]:
    return {found.arm.label: found.control.label for found in group.findings if found.control is not None}


def _margin(group: Group) -> float | None:
    return group.comparison.margin if group.comparison else None


def _title(report: Report) -> str:
    """Our studies by name, or else their data; those of others only where there is none of ours."""
    groups = report.measured or report.groups
    studies = dict.fromkeys(group.study for group in groups if group.study)
    names = studies or dict.fromkeys(f"{group.data} · {group.size}" for group in groups)
    return ", ".join(names)


def _facts(report: Report, words: Words) -> str:
    arms = [arm for group in report.measured or report.groups for arm in group.arms]
    seeds = sorted({seed for arm in arms for seed in arm.seeds})
    steps = sorted({arm.config.train.steps for arm in arms})
    return words.facts.format(
        runs=sum(len(arm.records) for arm in arms),
        arms=len(arms),
        seeds=_listed(seeds),
        steps=" – ".join(f"{step:,}" for step in dict.fromkeys((steps[0], steps[-1]))),
    )


def _listed(seeds: Sequence[int]) -> str:
    shown = [str(seed) for seed in seeds]
    return ", ".join(shown) if len(shown) <= 6 else f"{shown[0]}, {shown[1]}, … {shown[-1]}"


def _reproduce(report: Report, words: Words, command: str) -> Section:
    runs = tuple(line for group in report.groups for line in commands_of(group.arms))
    return Section("reproduce", words.reproduce, words.reproduce_lead, commands=(*runs, command))
