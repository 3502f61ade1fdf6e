"""The page as text; what a browser makes of it is tested in tests/browser."""

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from oelm.config.original_study import original_records
from oelm.config.record import Record, sealed
from oelm.report.compose import compose
from oelm.report.content import Content
from oelm.report.groups import build_report, report_runs
from oelm.report.record_files import load_records
from oelm.report.texts import Language, Texts
from oelm.report.write_html import as_html, prose
from oelm.report.write_json import as_json
from oelm.report.write_markdown import as_markdown
from report.records import make_arm, make_config, make_record

from .runs import TEN_METHODS, make_study, make_tuned_study

ROOT = Path(__file__).resolve().parents[2]
HAN = re.compile(r"[\u4e00-\u9fff]")


class Page(HTMLParser):
    """The visible text and the elements of each language's part."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {}
        self.elements: dict[str, list[str]] = {}
        self.addresses: list[str] = []
        self._language, self._hidden = "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("class") == "page":
            self._language = values["lang"] or ""
        if tag == "script":  # they stand below both parts
            self._language = ""
        self._hidden = tag in ("script", "style") or values.get("class") == "switch"
        self.elements.setdefault(self._language, []).append(tag)
        self.addresses += [values[name] or "" for name in ("src", "href") if name in values]

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if data.strip() and not self._hidden:
            self.texts.setdefault(self._language, []).append(data)


STUDIES = {
    "quickstart": lambda: load_records([ROOT / "results" / "quickstart"]),
    "sst2": lambda: load_records([ROOT / "results" / "sst2"]),
    "original": original_records,
    "ten arms": make_study,
    "tuned, beside the original": lambda: [*make_tuned_study(), *original_records()],
    "both tasks": lambda: [*load_records([ROOT / "results" / "sst2" / "final"]), *make_study(["baseline", "oelm"])],
    "no control": lambda: make_arm("oelm", (2.5, 2.6, 2.7)),
    "only a baseline": lambda: make_arm("baseline", (2.5,)),
    "gone wild": lambda: [*make_arm("baseline", (2.5, 2.6, 2.7)), *make_arm("oelm", (800.0, 2.6, 2.7))],
}


@pytest.fixture(params=STUDIES)
def records(request: pytest.FixtureRequest) -> list[Record]:
    return STUDIES[request.param]()


@pytest.mark.slow
def test_every_study_renders_in_every_format(records: list[Record]) -> None:
    report = build_report(records)
    for language in Language:
        assert f'<html lang="{language}">' in as_html(report, language)
        assert as_markdown(report, language, whole=True).startswith("# ")
        assert as_markdown(report, language)
    assert json.loads(as_json(report), parse_constant=pytest.fail)["groups"]


def test_the_languages_say_the_same(records: list[Record]) -> None:
    page = Page(as_html(build_report(records)))
    assert page.elements["en"] == page.elements["zh"]
    assert len(page.texts["en"]) == len(page.texts["zh"])
    assert not HAN.search("".join(page.texts["en"]))


def test_no_english_is_left_in_the_chinese_part() -> None:
    """Three words of English in a row: names, commands and units aside, there is no such thing."""
    page = Page(as_html(build_report(make_study())))
    sentences = [text for text in page.texts["zh"] if re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", text)]
    assert [text for text in sentences if "oelm train" not in text] == []


def test_nothing_is_fetched(records: list[Record]) -> None:
    page = Page(as_html(build_report(records)))
    assert [address for address in page.addresses if not address.startswith(("#", "data:"))] == []
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttpRequest", as_html(build_report(records)))


def test_links_lead_somewhere(records: list[Record]) -> None:
    text = as_html(build_report(records))
    anchors = re.findall(r' id="([^"]+)"', text)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(anchors)


def test_the_browser_may_run_what_the_page_brings_and_load_nothing(records: list[Record]) -> None:
    text = as_html(build_report(records))
    found = re.search('<meta http-equiv="Content-Security-Policy" content="([^"]+)">', text)
    assert found is not None
    assert found.start() < text.index("<script"), "what comes before the policy is not bound by it"
    policy = dict(part.strip().split(" ", 1) for part in html.unescape(found[1]).split(";"))
    assert policy["default-src"] == "'none'"
    allowed = re.findall("'sha256-([^']+)'", policy["script-src"])
    run = [script for script in re.findall("<script>(.*?)</script>", text, flags=re.S) if script]
    assert sorted(allowed) == sorted(base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in run)
    assert "unsafe" not in policy["script-src"]


def test_names_are_escaped() -> None:
    evil = "</script><script>alert(1)</script>"
    study = [renamed(record, evil) for record in make_study(["baseline", "oelm"])]
    text = as_html(build_report(study))
    assert evil not in text
    assert "alert(1)" in text
    assert text.count("<script") == 2
    assert (
        "<script"
        not in as_markdown(build_report(study), whole=True)
        .replace("\\<script", "")
        .replace(f"`baseline{evil}`", "")
        .replace(f"`oelm{evil}`", "")
        .split("```bash")[0]
    )


def renamed(record: Record, suffix: str) -> Record:
    method = record.config.method.model_copy(update={"name": record.method + suffix})
    return record.model_copy(update={"config": record.config.model_copy(update={"method": method})})


def test_commands_in_sentences_are_code() -> None:
    assert prose("run `oelm <x>` now, 5 %") == "run <code>oelm &lt;x&gt;</code> now, 5\u00a0%"
    assert prose("one ` alone & <b>") == "one  alone &amp; &lt;b&gt;"


def first(records: list[Record], primary: str | None = None, language: Language = Language.ENGLISH) -> Content:
    return compose(build_report(records, primary=primary), language, "oelm report")


def test_the_page_opens_with_the_primary_arm() -> None:
    assert first(make_study(), "oelm-global").experiments[0].verdict.sentence.startswith("oelm-global: ")
    assert first(make_study(["baseline", "oelm"])).experiments[0].verdict.sentence.startswith("oelm: ")


def test_all_seeds_stand_beside_the_verdict() -> None:
    experiment = first(make_study(seeds=4)).experiments[0]
    assert [mark.seed for mark in experiment.verdict.seeds] == [0, 1, 2, 3]
    forest = experiment.rows[0].forest
    assert forest is not None
    lanes = [lane for group in forest.groups for lane in group.lanes]
    assert len(lanes) == 9
    assert all(len(lane.seeds) == 4 for lane in lanes)


def test_confounds_stand_beside_the_verdict() -> None:
    runs = [*make_arm("baseline", (2.5, 2.6, 2.7)), *make_arm("oelm", (2.6, 2.7, 2.8), lr=3e-4)]
    experiment = first(runs).experiments[0]
    assert any("lr differs (3e-4 against 1e-3)" in remark for remark in experiment.verdict.explanations)
    forest = experiment.rows[0].forest
    assert forest is not None
    assert forest.groups[0].lanes[0].confounds == "confounds: 1"
    clean = first([*make_arm("baseline", (2.5, 2.6, 2.7)), *make_arm("oelm", (2.6, 2.7, 2.8))]).experiments[0]
    assert clean.verdict.explanations[0].startswith("Nothing was found")


def test_results_stand_against_the_trained_share_of_q_and_k() -> None:
    """The demo's arms: a baseline trains all of it, `oelm` nothing."""
    experiment = first(load_records([ROOT / "results" / "quickstart"])).experiments[0]
    plots = [plot for view in experiment.views for plot in view.plots]
    (shares,) = [plot for plot in plots if plot.x_label == "trained share of Q and K"]
    ends = {dot.words.partition(",")[0]: dot.words.rpartition(", ")[2] for dot in shares.dots}
    assert (ends["baseline"], ends["oelm"]) == ("100.0 %", "0.0 %")


def test_the_original_study_is_shown_as_reported() -> None:
    content = first(list(original_records()), language=Language.CHINESE)
    claims, overview = content.openings
    assert claims.anchor == "claims"
    assert len(claims.statements) == 5
    assert all(statement.remarks for statement in claims.statements)
    assert len(overview.tables[0].rows) == len(content.experiments)
    assert "verdict" not in {column.id for column in overview.tables[0].columns}
    assert all(
        experiment.rows[0].figures.title == Texts(Language.CHINESE)("reported_figures")
        for experiment in content.experiments
    )
    sections = {section.anchor for experiment in content.experiments for section in experiment.views}
    assert "geometry" not in sections


def test_a_tuned_study_shows_its_grid_and_what_was_reported_beside_it() -> None:
    content = first([*make_tuned_study(), *original_records()])
    sections = {section.anchor: section for section in content.sections}
    grid = sections["tuning"].tables[0]
    assert [column.heading for column in grid.columns] == ["method", "3e-4", "1e-3", "3e-3"]
    assert [cell.text.startswith("✓") for cell in grid.rows[0]] == [False, False, True, False]
    assert {row[2].text for row in sections["reported"].tables[0].rows} >= {"GPT-01", "GPT-02"}
    assert content.experiments[0].verdict.sentence.startswith("oelm: ")


def test_frozen_weights_that_moved_are_shouted() -> None:
    runs = [*make_arm("baseline", (2.5,)), make_record(make_config("oelm", 0), 2.5, unchanged=False)]
    audit = next(section for section in first(runs).experiments[0].views if section.anchor == "audit")
    assert audit.tables[0].rows[0][5].text == "NO"


@pytest.mark.slow
def test_long_runs_are_read_and_drawn_quickly_on_a_small_page(tmp_path: Path) -> None:
    """A twentieth of 1,000 runs with 1,000 validations each, whose page may take 20 s and 10 MB."""
    study = make_study(TEN_METHODS[:5], seeds=10, events=1000, steps=100_000)
    for record in study:
        (tmp_path / f"{record.method}-{record.config.seed}").mkdir()
        file = tmp_path / f"{record.method}-{record.config.seed}" / "record.json"
        file.write_text(sealed(record).model_dump_json())
    start = time.process_time()
    text = as_html(report_runs([tmp_path]))
    seconds = time.process_time() - start
    assert seconds < 4, f"{seconds:.1f} s"
    assert len(text.encode()) < 2_000_000
    drawn = json.loads(text.split('id="curves">')[1].split("</script>")[0])[0]["runs"]
    assert len(drawn) == len(study)
    assert sorted(run["loss"][-1] for run in drawn) == sorted(round(record.loss, 4) for record in study)


def test_rendering_loads_no_torch() -> None:
    code = (
        "import sys\n"
        "from oelm.report.write_html import as_html\n"
        "from oelm.config.original_study import original_records\n"
        "from oelm.report.groups import build_report\n"
        "as_html(build_report(original_records()))\n"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
