"""Sentences of either kind of comparison, for an experiment and for the whole report."""

from oelm.report.accuracy import AccuracyFinding
from oelm.report.comparison import Finding
from oelm.report.groups import Group
from oelm.report.report import Report
from oelm.report.sentences import (
    accuracy_footnotes,
    accuracy_general_remarks,
    accuracy_remarks,
    accuracy_sentence,
    finding_remarks,
    finding_sentence,
    footnotes,
    general_remarks,
    registration_sentences,
    speed_sentences,
)
from oelm.report.texts import Texts


def sentence_on(found: Finding | AccuracyFinding, group: Group, texts: Texts) -> str:
    """The one sentence on an arm."""
    if isinstance(found, Finding):
        assert group.comparison is not None
        return finding_sentence(found, group.comparison.margin, texts)
    assert group.accuracy is not None
    return accuracy_sentence(found, group.accuracy.share, texts)


def remarks_on(found: Finding | AccuracyFinding, texts: Texts) -> tuple[str, ...]:
    """What stands beside the verdict on an arm."""
    return finding_remarks(found, texts) if isinstance(found, Finding) else accuracy_remarks(found, texts)


def remarks_across(group: Group, texts: Texts) -> tuple[str, ...]:
    """What concerns several arms of an experiment at once; speed has a section of its own."""
    if group.comparison is not None:
        speed = speed_sentences(group.comparison.findings, texts)
        return tuple(remark for remark in general_remarks(group.comparison, texts) if remark != speed)
    return accuracy_general_remarks(group.accuracy, texts) if group.accuracy is not None else ()


def footnotes_of(report: Report, texts: Texts) -> tuple[str, ...]:
    """How to read the numbers of all experiments, and what is not among them."""
    notes = list(registration_sentences(report.registrations, texts))
    for group in report.groups:
        if group.comparison is not None:
            notes += footnotes(group.comparison, texts)
        if group.accuracy is not None:
            notes += accuracy_footnotes(group.accuracy, texts)
    if report.unfinished:
        notes.append(texts.unfinished.format(folders=", ".join(map(str, report.unfinished))))
    return tuple(dict.fromkeys(notes))
