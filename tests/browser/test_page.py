"""The report in a real browser: what a reader sees, points at, switches and prints."""

import json
import re
from pathlib import Path

import pytest

from oelm.report.groups import build_report
from oelm.report.record_files import load_records
from oelm.report.write_html import as_html
from report_page.runs import make_study

from .chromium import Chromium

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
STUDIES = {
    "quickstart": lambda: load_records([ROOT / "results" / "quickstart"]),
    "sst2": lambda: load_records([ROOT / "results" / "sst2" / "final"]),
    "ten-arms": make_study,
    "many-seeds": lambda: make_study(["baseline", "oelm", "oelm-random"], seeds=12),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    written = {}
    for name, records in STUDIES.items():
        written[name] = folder / f"{name}.html"
        written[name].write_text(as_html(build_report(records())), encoding="utf-8")
    return written


@pytest.fixture(params=STUDIES)
def page(request: pytest.FixtureRequest, pages: dict[str, Path]) -> Path:
    return pages[request.param]


def box(chromium: Chromium, selector: str) -> dict[str, float]:
    return chromium.evaluate(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()")


def texts(chromium: Chromium, selector: str) -> list[str]:
    found = chromium.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")
    return [text.strip() for text in found]


def count(chromium: Chromium, selector: str) -> int:
    return chromium.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")


def to_the_chart(chromium: Chromium, language: str = "en") -> dict[str, float]:
    chromium.evaluate(f"document.querySelector('.page[lang={language}] svg.plot').scrollIntoView({{block: 'center'}})")
    chromium.settle()
    return box(chromium, f".page[lang={language}] svg.plot")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_asked_of_the_network_and_nothing_complains(chromium: Chromium, page: Path, scheme: str) -> None:
    chromium.open(page, scheme=scheme)
    chromium.settle()
    assert chromium.complaints == []
    assert [url for url in chromium.requests if not url.startswith("data:")] == [page.resolve().as_uri()]


def test_the_answer_is_seen_without_scrolling(chromium: Chromium, page: Path) -> None:
    chromium.open(page, 1280, 800)
    for selector in (".plain", ".about", ".figures", ".attention"):
        assert box(chromium, f".page[lang=en] {selector}")["bottom"] <= 500
    assert box(chromium, ".page[lang=en] .price .frame")["top"] <= 600
    names = texts(chromium, ".page[lang=en] .figures dt")
    assert {"n", "95 % interval"} <= set(names)
    seeds = len(STUDIES[page.stem]()) // len(texts(chromium, ".page[lang=en] .legend button"))
    assert count(chromium, ".page[lang=en] .figures .seed-value") == seeds


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_overflows(chromium: Chromium, page: Path, width: int, language: str) -> None:
    chromium.open(page, width, 844)
    chromium.evaluate(f"document.documentElement.lang = '{language}'")
    chromium.settle()
    assert chromium.evaluate("document.documentElement.scrollWidth") == width
    # What is wider than the window may only be so inside a box that scrolls by itself.
    outside = chromium.evaluate(
        f"[...document.querySelectorAll('.page[lang={language}] *')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll'))"
        ".map(e => e.outerHTML.slice(0, 120))"
    )
    assert outside == []


def test_every_arm_is_a_mean_with_a_band_and_on_demand_every_run_a_line(
    chromium: Chromium, pages: dict[str, Path]
) -> None:
    chromium.open(pages["quickstart"])
    chromium.settle()
    drawn = [f".page[lang=en] .lines path.{kind}" for kind in ("mean", "band", "arm")]
    assert [count(chromium, each) for each in drawn] == [6, 6, 6]
    chromium.click(".page[lang=en] label:has([data-choice=shown][value=seeds])")
    assert [count(chromium, each) for each in drawn] == [0, 0, 18]
    chromium.click(".page[lang=en] .legend button")
    assert count(chromium, ".page[lang=en] .lines path.arm") == 15


def test_the_saving_is_chosen(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.open(pages["quickstart"])
    shown = (
        "[...document.querySelectorAll('.page[lang=en] .price .scatter')]"
        ".filter(e => e.offsetHeight).map(e => e.querySelector('.across:last-child').textContent)"
    )
    assert chromium.evaluate(shown) == ["arithmetic saved →"]
    chromium.click(".page[lang=en] .price label:has([value='1'])")
    assert chromium.evaluate(shown) == ["trained weights saved →"]


def test_curves_change_with_the_choices(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.open(pages["quickstart"])
    chromium.settle()
    seen = set()
    for choice in (
        "measure-loss against-steps",
        "measure-perplexity",
        "measure-bits",
        "measure-ratio",
        "against-tokens",
        "against-time",
        "split-training",
        "span-end",
        "shown-seeds",
    ):
        for each in choice.split():
            name, _, value = each.partition("-")
            chromium.click(f".page[lang=en] label:has([data-choice={name}][value={value}])")
        drawing = chromium.evaluate("document.querySelector('.page[lang=en] svg.plot').innerHTML")
        assert "<path" in drawing
        assert "NaN" not in drawing
        seen.add(drawing)
    assert len(seen) == 9
    assert chromium.complaints == []


def test_pointing_at_the_chart_tells_the_values_of_all_seeds(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.open(pages["quickstart"])
    chromium.settle()
    chart = to_the_chart(chromium)
    chromium.hover(chart["x"] + chart["width"] - 20, chart["y"] + chart["height"] / 2)
    values = chromium.evaluate("document.querySelector('.page[lang=en] .values').innerText")
    record = load_records([ROOT / "results" / "quickstart" / "final" / "oelm-seed0"])[0]
    assert re.sub(r"\s+", " ", values).startswith("steps 400")
    assert f"{record.result.loss:.4f}" in values
    assert values.count("seed ") == 3
    assert count(chromium, ".page[lang=en] .crosshair circle") == 18
    tip = box(chromium, ".page[lang=en] .values")
    assert tip["left"] >= 0
    assert tip["right"] <= 1280
    chromium.hover(5, 5)
    assert chromium.evaluate("document.querySelector('.page[lang=en] .values').hidden")


def test_the_keyboard_moves_through_the_values(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.open(pages["quickstart"])
    chromium.settle()
    chromium.evaluate("document.querySelector('.page[lang=en] svg.plot').focus()")
    for expected in ("steps 80", "steps 160"):
        for kind in ("keyDown", "keyUp"):
            chromium.send("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight")
        assert chromium.evaluate("document.querySelector('.page[lang=en] .values strong').textContent") == expected


def test_the_switch_shows_the_other_language_and_back(chromium: Chromium, page: Path) -> None:
    chromium.open(page)
    shown = "[...document.querySelectorAll('.page')].filter(e => e.offsetHeight).map(e => e.lang)"
    assert chromium.evaluate(shown) == ["en"]
    chromium.click(".page[lang=en] .switch")
    assert chromium.evaluate(shown) == ["zh"]
    chromium.settle()
    assert count(chromium, ".page[lang=zh] .lines path.arm") > 0
    chart = to_the_chart(chromium, "zh")
    chromium.hover(chart["x"] + chart["width"] / 2, chart["y"] + chart["height"] / 2)
    expected = "最低" if page.stem == "many-seeds" else "种子 0"
    assert expected in chromium.evaluate("document.querySelector('.page[lang=zh] .values').innerText")
    chromium.click(".page[lang=zh] .switch")
    assert chromium.evaluate(shown) == ["en"]
    assert chromium.complaints == []


def test_both_languages_have_the_same_build(chromium: Chromium, page: Path) -> None:
    chromium.open(page)
    built = "[...document.querySelectorAll('.page[lang={}] *')].filter(e => !e.closest('svg.plot')).map(e => e.tagName)"
    assert chromium.evaluate(built.format("en")) == chromium.evaluate(built.format("zh"))


@pytest.mark.parametrize(("name", "scheme"), [("sst2", "light"), ("ten-arms", "dark")])
def test_it_prints(chromium: Chromium, pages: dict[str, Path], name: str, scheme: str) -> None:
    chromium.open(pages[name], scheme=scheme)
    chromium.settle()
    printed = chromium.pdf()
    assert printed.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12
    paper = "getComputedStyle(document.documentElement).getPropertyValue('--ink')"
    chromium.send("Emulation.setEmulatedMedia", media="print", features=[])
    assert chromium.evaluate(paper).strip() == "#1f2328"
    chromium.send("Emulation.setEmulatedMedia", media="")
    assert chromium.complaints == []


def test_names_stay_text(chromium: Chromium, tmp_path: Path) -> None:
    evil = "<script>throw 1</script></script><img src=x onerror=alert(1)>`\"'"
    records = make_study(["baseline", "oelm"])
    named = [
        record.model_copy(
            update={
                "config": record.config.model_copy(
                    update={
                        "method": record.config.method.model_copy(update={"name": f"{record.method}{evil}"}),
                        "data": record.config.data.model_copy(update={"name": evil, "folder": evil}),
                    }
                )
            }
        )
        for record in records
    ]
    path = tmp_path / "evil.html"
    path.write_text(as_html(build_report(named)), encoding="utf-8")
    chromium.open(path)
    chromium.settle()
    assert chromium.complaints == []
    assert len(chromium.requests) == 1 + sum(url.startswith("data:") for url in chromium.requests)
    assert count(chromium, "img") == 0
    assert texts(chromium, ".page[lang=en] .legend button") == [f"baseline{evil}", f"oelm{evil}"]
