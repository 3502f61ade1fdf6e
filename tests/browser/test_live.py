"""The live page in a real browser: a run that starts while it is open appears, grows and ends."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oelm.base.files import write_json
from oelm.config.measure import BY_TASK
from oelm.report.live_page import LivePage, LiveRequest, Queue, QueuedRun
from oelm.report.page_server import PageServer
from report.records import make_arm, write_run
from report_page.under_way import log, start

from .chromium import PATIENCE, Chromium

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LINES = ".page[lang=en] main .lines path"
LIVE_LINES = ".page[lang=en] .live .lines path"


@pytest.fixture
def server(chromium: Chromium, tmp_path: Path) -> Iterator[PageServer]:
    def queues() -> list[Queue]:
        folders = sorted(path.parent for path in tmp_path.rglob("config.yaml"))
        rows = [QueuedRun(path.name, "running", False, [""] * 8, None) for path in folders]
        return [Queue("my study", BY_TASK["language-modelling"][0], rows)]

    with PageServer(LivePage(LiveRequest([tmp_path]), queues), 0) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        chromium.open("about:blank")  # else it would go on asking
        made.shutdown()
        thread.join()


def wait_until(chromium: Chromium, condition: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not chromium.evaluate(condition):
        assert time.monotonic() < deadline, condition
        time.sleep(0.1)


@pytest.mark.slow
def test_a_run_started_while_the_page_is_open_appears_and_its_curve_grows(
    chromium: Chromium, server: PageServer, tmp_path: Path
) -> None:
    for method, losses in (("baseline", (2.5, 2.6, 2.7)), ("oelm", (2.5, 2.6))):
        for record in make_arm(method, losses):
            write_run(tmp_path / f"{method}-{record.config.seed}", record)
    chromium.open(server.url)
    wait_until(chromium, "document.querySelectorAll('.page[lang=en] .queue tbody tr').length === 5")
    assert chromium.evaluate(f"document.querySelectorAll('{LIVE_LINES}').length") == 0

    # The reader closes the table, hides an arm, chooses another measure and scrolls down to the figures.
    chromium.click(".page[lang=en] .queue summary")
    chromium.click(".page[lang=en] main .legend button")
    chromium.click(".page[lang=en] main label:has([data-choice=measure][value=perplexity])")
    chromium.click(".page[lang=en] main label:has([data-choice=shown][value=seeds])")
    chromium.evaluate("document.getElementById('en-measured-0').scrollIntoView()")
    before = chromium.evaluate("document.getElementById('en-measured-0').getBoundingClientRect().top")

    run = start(tmp_path / "oelm-2", seed=2)
    wait_until(chromium, f"document.querySelectorAll('{LIVE_LINES}.open').length === 1")
    for step in range(20, 200, 10):
        log(run, step, 5.0 - step / 100)
    chromium.evaluate("document.querySelector('.page[lang=en] .live input[value=tokens]').click()")
    points = f"document.querySelector('{LIVE_LINES}.open').getAttribute('d').split('L').length"
    wait_until(chromium, f"{points} === 19")
    log(run, 200, 2.9)
    wait_until(chromium, f"{points} === 20")
    assert chromium.evaluate("document.querySelector('.page[lang=en] .live input[value=tokens]').checked")
    assert chromium.evaluate(f"document.querySelectorAll('{LINES}').length") == 2, "one arm is hidden"

    record = make_arm("oelm", {2: 2.7})[0]
    write_json(run / "record.json", record.model_dump(mode="json"))
    wait_until(chromium, f"document.querySelectorAll('{LINES}').length === 3")
    assert chromium.evaluate(f"document.querySelectorAll('{LIVE_LINES}').length") == 0, "all have ended"
    after = chromium.evaluate("document.getElementById('en-measured-0').getBoundingClientRect().top")
    assert abs(after - before) < 2, "what is being read stays where it is"
    assert not chromium.evaluate("document.querySelector('.page[lang=en] .queue').open")
    assert chromium.evaluate("document.querySelector('.page[lang=en] main [value=perplexity]').checked")
    chromium.click(".page[lang=en] .switch")
    assert chromium.evaluate("document.querySelector('.page[lang=zh] .queue').getClientRects().length") == 1
    assert chromium.complaints == []
    asked = {url.removeprefix(server.url) for url in chromium.requests if not url.startswith("data:")}
    assert asked == {"", "state"}


def test_it_says_when_nobody_answers(chromium: Chromium, server: PageServer) -> None:
    chromium.open(server.url)
    wait_until(chromium, "document.querySelector('.page[lang=en] .queue') !== null")
    assert chromium.evaluate("document.querySelector('.lost').hidden")
    server.shutdown()
    server.server_close()
    wait_until(chromium, "!document.querySelector('.lost').hidden")
