"""The page of runs under way: made anew when runs have ended, with what is known of the others at its top.

Two answers and no other: `/`, the page, and `/state`, JSON for its script: how the runs are doing, in both languages,
the curves so far, and which build of the page belongs to it. Where a build fails, the last good one stays and says so.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from oelm.config.measure import Measure
from oelm.config.record import Record
from oelm.report.compose import COLOURS, colours_of
from oelm.report.content import Cell, Content
from oelm.report.groups import OnlyTuningError, Report, report_runs
from oelm.report.live_runs import LiveRun, Stamps, label_of, live_curves, look, of_the_report, unfinished_curves
from oelm.report.record_files import RECORD
from oelm.report.texts import Language, Texts
from oelm.report.write_html import as_html, content_policy, write_body, write_page

_LOOK_SECONDS = 1.0
_REST = 4
"""So many times as long as a look took, the next one waits: of a large study a page must not take a whole core."""
_SHORT = 40
"""Runs up to which their table is open at first."""
_HEADINGS = ("run", "state", "step", "loss", "", "best", "speed", "left", "elapsed", "device")
"""The empty one is the measure."""


@dataclass(frozen=True)
class QueuedRun:
    """How one run of a study is doing, in words and numbers."""

    name: str
    state: str
    is_silent: bool
    progress: Sequence[str]
    """Step, training loss, the main measure, its best, speed, time left and elapsed, device."""
    reason: str | None


@dataclass(frozen=True)
class Queue:
    """All runs of a study, started or not."""

    study: str
    measure: Measure
    runs: Sequence[QueuedRun]


@dataclass(frozen=True)
class LiveRequest:
    """What `oelm report` was asked for."""

    paths: Sequence[Path]
    margin: float | None = None
    primary: str | None = None
    reported: Sequence[Record] = ()
    language: str = Language.ENGLISH.value
    """Its code."""
    command: str = "oelm report"


@dataclass(frozen=True)
class Answer:
    """What is sent for a path."""

    kind: str
    content: bytes
    tag: str


class LivePage:
    """Looks at the folders when somebody asks, at most once a second. May be asked by several threads."""

    def __init__(self, asked: LiveRequest, queues: Callable[[], Sequence[Queue]]) -> None:
        self._asked = asked
        self._queues = queues
        self._lock = threading.Lock()
        self._problem = ""
        self._next_look = 0.0
        self._tried = of_the_report(look(asked.paths))
        self._build(self._tried)  # what is wrong with the first one is the person's to correct
        self._look()

    @property
    def policy(self) -> str:
        """What a browser may do with the page; nobody may put it into a page of theirs."""
        return f"{content_policy(is_live=True)}; frame-ancestors 'none'"

    def answer(self, path: str) -> Answer | None:
        """The page or its state as of now; None for any other path."""
        with self._lock:
            if time.monotonic() >= self._next_look:
                began = time.monotonic()
                self._look()
                ended = time.monotonic()
                self._next_look = ended + max(_LOOK_SECONDS, _REST * (ended - began))
            return {"/": self._page, "/state": self._state}.get(path)

    def _look(self) -> None:
        """Renew what has changed. Whatever goes wrong, the last good page stays, and says so."""
        seen = look(self._asked.paths)
        if (inputs := of_the_report(seen)) != self._tried:
            self._tried, self._problem = inputs, ""
            try:
                self._build(inputs)
            except Exception as error:  # noqa: BLE001
                self._problem = _reason(error)
        queues: Sequence[Queue] = ()
        unfinished, problem = list[LiveRun](), self._problem
        try:
            queues, unfinished = self._queues(), unfinished_curves(seen)
        except Exception as error:  # noqa: BLE001
            problem = problem or _reason(error)
        self._state = self._described(queues, unfinished, problem)

    def _build(self, inputs: Stamps) -> None:
        asked, language = self._asked, Language(self._asked.language)
        report, name = _report(asked, inputs), _digest(repr(sorted(inputs.items())).encode())
        if report is None:
            empty = {code: _nothing_ended(asked, Texts(code)) for code in Language}
            text = write_page(empty, [], language, name)
        else:
            text = as_html(report, language, asked.command, name)
        self._page = Answer("text/html; charset=utf-8", text.encode(), name)
        self._report, self._built_at = report, time.strftime("%H:%M:%S")

    def _described(self, queues: Sequence[Queue], unfinished: Sequence[LiveRun], problem: str) -> Answer:
        runs = [*_finished_curves(self._report), *unfinished] if unfinished else []
        colours = _colours(self._report, runs)

        def part(code: Language) -> str:
            say = Texts(code)
            live = {
                "problem": say("live.problem", reason=problem, time=self._built_at) if problem else "",
                "queues": [_in_words(queue, say) for queue in queues],
                "anchor": "live",
                "curve_choices": [("loss", say("curve.loss"))],
                "legend": [Cell(label, is_name=True, colour=colour) for label, colour in colours.items()],
            }
            return write_body(code, live=live)

        state = {
            "build": self._page.tag,
            "parts": {code: part(code) for code in Language},
            "curves": live_curves(runs, colours) if runs else None,
        }
        content = json.dumps(state, ensure_ascii=False, allow_nan=False).encode()
        return Answer("application/json", content, _digest(content))


def _report(asked: LiveRequest, inputs: Stamps) -> Report | None:
    """The report on what has ended; None while no final run has."""
    ended = {folder for file in inputs if file.name == RECORD for folder in (file, *file.parents)}
    paths = [path for path in asked.paths if path in ended or path.is_file()]
    try:
        return report_runs(paths, asked.margin, asked.primary, asked.reported) if paths else None
    except OnlyTuningError:
        return None


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _nothing_ended(asked: LiveRequest, say: Texts) -> Content:
    """A page of which only the top says something."""
    empty: dict[str, Any] = {field.name: () for field in fields(Content)}
    title = ", ".join(path.resolve().name for path in asked.paths)
    return Content(**{**empty, "title": title, "facts": say("live.none_ended")})


def _finished_curves(report: Report | None) -> list[LiveRun]:
    arms = [arm for group in report.groups if group.source == "measured" for arm in group.arms] if report else []
    records = [record for arm in arms for record in arm.records if record.curve]
    return [LiveRun(label_of(each.config), each.config.seed, each.curve, is_open=False) for each in records]


def _colours(report: Report | None, runs: Sequence[LiveRun]) -> dict[str, int]:
    """By label, in the order of the runs: those that the experiments below have, where they have the arm."""
    known: dict[str, int] = {}
    for group in report.groups if report else ():
        known |= colours_of(group.arms)
    labels = dict.fromkeys(run.label for run in runs)
    return {label: known.get(label, 1 + place % (COLOURS - 1)) for place, label in enumerate(labels)}


def _in_words(queue: Queue, say: Texts) -> Mapping[str, object]:
    """What `live.html` shows of a study."""
    states = list(dict.fromkeys(run.state for run in queue.runs))
    counts = [(say(f"state.{state}"), sum(run.state == state for run in queue.runs)) for state in states]
    said = ", ".join(say("live.count", state=state, count=count) for state, count in counts)
    headings = [say(f"live.{name}") if name else say.name(queue.measure) for name in _HEADINGS]
    return {
        "study": queue.study,
        "summary": say("live.summary", total=len(queue.runs), counts=said),
        "headings": headings,
        "rows": [
            {
                "name": run.name,
                "state": run.state,
                "words": say("live.silent", state=say(f"state.{run.state}"))
                if run.is_silent
                else say(f"state.{run.state}"),
                "progress": run.progress,
            }
            for run in queue.runs
        ],
        "reasons": [f"{run.name}: {run.reason}" for run in queue.runs if run.reason],
        "is_short": len(queue.runs) <= _SHORT,
    }


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]
