"""The page that follows its runs: what it answers, what it keeps, and whom it refuses."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oelm.base.errors import ConfigError
from oelm.config.measure import BY_TASK
from oelm.config.study_role import StudyRole
from oelm.report import live_page
from oelm.report.live_page import LivePage, LiveRequest, Queue, QueuedRun
from oelm.report.page_server import PageServer
from report.records import make_arm, write_run

from .under_way import log, start

EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test does not wait a second between two looks."""
    monkeypatch.setattr(live_page, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(live_page, "_REST", 0)


def page_of(folder: Path, queues: tuple[Queue, ...] = ()) -> LivePage:
    return LivePage(LiveRequest([folder]), lambda: queues)


def text(page: LivePage) -> str:
    answer = page.answer("/")
    assert answer is not None
    return answer.content.decode()


def state(page: LivePage) -> dict[str, Any]:
    answer = page.answer("/state")
    assert answer is not None
    return json.loads(answer.content, parse_constant=pytest.fail)


def finish(folder: Path, method: str, losses: tuple[float, ...]) -> None:
    for record in make_arm(method, losses):
        write_run(folder / f"{method}-{record.config.seed}", record)


def test_a_run_appears_grows_and_ends(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert state(page)["curves"] is None
    assert "No final run has ended yet." in text(page)
    run = start(tmp_path / "oelm-0")
    (line,) = state(page)["curves"]["runs"]
    assert (line["loss"], line["train"], line["open"]) == ([None], [5.0], True)
    assert "Runs so far" in state(page)["parts"]["en"]
    build = state(page)["build"]
    log(run, 100, 4.0)
    with (run / "events.jsonl").open("a") as file:
        file.write('{"event": "st')  # the run is in the middle of a line
    grown = state(page)
    assert grown["curves"]["runs"][0]["train"] == [5.0, 4.0]
    assert grown["curves"]["runs"][0]["loss"] == [None, 4.1]
    assert grown["build"] == build, "nothing has ended: the page is the same"
    assert "verdict" not in re.sub("<style>.*?</style>", "", text(page), flags=re.S)
    finish(tmp_path, "baseline", (2.5, 2.6))
    both = state(page)
    assert both["build"] != build
    assert f'data-build="{both["build"]}"' in text(page)
    assert [run["open"] for run in both["curves"]["runs"]] == [False, False, True], "finished ones for comparison"
    assert "oelm" not in [arm["label"] for arm in json.loads(curves(text(page)))[0]["arms"]], "never judged"


@pytest.mark.parametrize("line", ["null", "{}", '{"event": "step"}', "[" * 5000, '{"event": "step", "loss": "x"}'])
def test_a_damaged_event_is_passed_over(tmp_path: Path, line: str) -> None:
    run = start(tmp_path / "oelm-0")
    with (run / "events.jsonl").open("a") as file:
        file.write(f"{line}\n")
    log(run, 100, 4.0)
    assert state(page_of(tmp_path))["curves"]["runs"][0]["train"] == [5.0, 4.0]


def test_no_pipe_is_waited_for(tmp_path: Path) -> None:
    run = start(tmp_path / "oelm-0")
    (run / "events.jsonl").unlink()
    os.mkfifo(run / "events.jsonl")
    assert state(page_of(tmp_path))["curves"] is None


def curves(page: str) -> str:
    found = re.search(r'id="curves">(.*?)</script>', page)
    assert found is not None
    return found.group(1)


def test_a_build_that_fails_keeps_the_last_good_page_and_says_so(tmp_path: Path) -> None:
    finish(tmp_path / "one", "baseline", (2.5, 2.6))
    page = page_of(tmp_path)
    good = text(page)
    finish(tmp_path / "other", "baseline", (2.4,))  # the same run with another result
    assert text(page) == good
    for code, words in {"en": "cannot be renewed", "zh": "无法更新"}.items():
        assert words in state(page)["parts"][code]
        assert "record the same run with different results" in state(page)["parts"][code]
    shutil.rmtree(tmp_path / "other")
    assert "cannot be renewed" not in state(page)["parts"]["en"]


def test_before_the_first_final_run_there_is_a_page_too(tmp_path: Path) -> None:
    trial = StudyRole(study="mine", stage="tuning")
    write_run(tmp_path / "trial", make_arm("oelm", (2.5,), study=trial)[0])
    page = page_of(tmp_path)
    assert "No final run has ended yet." in text(page)
    finish(tmp_path, "baseline", (2.5, 2.6))
    assert "No final run has ended yet." not in text(page)
    assert "cannot be renewed" not in state(page)["parts"]["en"]


def test_a_first_build_that_fails_is_refused(tmp_path: Path) -> None:
    finish(tmp_path, "baseline", (2.5,))
    (tmp_path / "baseline-0" / "record.json").write_text("{")
    with pytest.raises(Exception, match="is not JSON"):
        page_of(tmp_path)


def test_the_queue_stands_at_the_top_in_both_languages_and_names_stay_text(tmp_path: Path) -> None:
    runs = [
        QueuedRun(f"oelm{EVIL}", "running", True, ["5/20", "3.1", "8.2", "8.1", "900", "2 s", "1 s", "cpu"], None),
        QueuedRun("oelm-1", "failed", False, [""] * 8, f"no disk {EVIL}"),
    ]
    parts = state(page_of(tmp_path, (Queue("my study", BY_TASK["language-modelling"][0], runs),)))["parts"]
    assert "2 runs: 1 running, 1 failed" in parts["en"]
    assert "running, silent" in parts["en"]
    assert "perplexity" in parts["en"]
    assert "运行中 1 次" in parts["zh"]
    for part in parts.values():
        assert "<img" not in part
        assert part.count("onerror") == 2
        assert "<details" in part


# --- the server ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = tmp_path_factory.mktemp("runs")
    finish(folder, "baseline", (2.5, 2.6))
    with PageServer(page_of(folder), 0) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def test_the_page_and_its_state_are_all_there_is(server: PageServer) -> None:
    page, content = ask(server, "/")
    assert (page.status, page.headers.get_content_type()) == (200, "text/html")
    assert content.startswith(b"<!doctype html>")
    answer, content = ask(server, "/state")
    assert (answer.status, answer.headers.get_content_type()) == (200, "application/json")
    assert json.loads(content)["build"] == page.headers["ETag"].strip('"')
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "path",
    [
        "/baseline-0/record.json",
        "/../baseline-0/record.json",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/etc/passwd",
        "/./",
        "/state/",
        "/?/",
        "/index.html",
        "/page.html",
        "/favicon.ico",
        "*",
        "http://127.0.0.1/",
        "file:///etc/passwd",
    ],
)
def test_no_path_leads_to_a_file(server: PageServer, path: str) -> None:
    answer, content = ask(server, path)
    assert (answer.status, content) == (404, b"404 Not Found\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_reading_is_all_that_is_allowed(server: PageServer, method: str) -> None:
    answer, content = ask(server, "/", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert b"doctype" not in content


@pytest.mark.parametrize("path", ["/", "/state", "/nowhere"])
def test_head_is_the_same_without_the_content(server: PageServer, path: str) -> None:
    (got, content), (head, nothing) = ask(server, path), ask(server, path, "HEAD")
    assert (head.status, nothing) == (got.status, b"")
    assert head.headers["Content-Length"] == str(len(content))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST", 200),
        ("localhost:9000", 200),  # the near end of a tunnel
        ("evil.example", 403),
        ("evil.example:{port}", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:{port}", 403),
        ("evil.example@localhost", 403),
        ("0.0.0.0:{port}", 403),
        ("", 403),
    ],
)
def test_other_names_for_this_machine_are_refused(server: PageServer, host: str, status: int) -> None:
    for path in ("/", "/state"):
        answer, content = ask(server, path, Host=host.format(port=server.server_address[1]))
        assert answer.status == status
        assert (b"build" in content) == (status == 200)


def test_a_request_without_a_host_or_without_sense_is_refused(server: PageServer) -> None:
    for request, expected in ((b"GET / HTTP/1.0\r\n\r\n", b" 403 "), (b"nonsense\r\n\r\n", b"400 Bad Request")):
        with socket.create_connection(server.server_address[:2], timeout=20) as connection:
            connection.sendall(request)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert expected in answer
        assert b"doctype" not in answer


@pytest.mark.parametrize("path", ["/", "/state", "/nowhere"])
def test_the_browser_is_told_to_trust_nothing_else(server: PageServer, path: str) -> None:
    answer, _ = ask(server, path)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert re.fullmatch(r"'sha256-[\w+/=]+'", policy["script-src"])
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "Python" not in answer.headers["Server"]


def test_what_has_not_changed_is_not_sent_again(server: PageServer) -> None:
    first, _ = ask(server, "/state")
    again, content = ask(server, "/state", If_None_Match=first.headers["ETag"])
    assert (again.status, content) == (304, b"")
    assert ask(server, "/state", If_None_Match='"other"')[0].status == 200


def test_a_port_in_use_is_an_error_with_a_fix(server: PageServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"port \d+ of 127.0.0.1 is in use. Fix: give another --port"):
        PageServer(page_of(tmp_path), server.server_address[1])


@pytest.mark.slow
def test_the_command_serves_until_ctrl_c(tmp_path: Path) -> None:
    finish(tmp_path / "runs", "baseline", (2.5, 2.6))
    command = [sys.executable, "-m", "oelm", "report", str(tmp_path / "runs"), "--serve", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as served:
        assert served.stdout is not None
        said = served.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", said)
        assert found is not None, said
        connection = http.client.HTTPConnection("127.0.0.1", int(found.group(1)), timeout=20)
        connection.request("GET", "/state")
        assert connection.getresponse().status == 200
        served.send_signal(signal.SIGINT)
        printed, errors = served.communicate(timeout=20)
    assert (served.returncode, errors) == (0, "")
    assert "the runs go on" in printed
