"""A Chromium driven over its own pipe: DevTools messages as NUL-ended JSON, so that no driver has to be installed.

`--remote-debugging-pipe` makes Chromium read commands from file descriptor 3 and write answers to 4.
"""

import base64
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds until an answer is given up: the machine may be busy."""

# Moves the two ends of the pipes to the descriptors that Chromium expects, and becomes Chromium.
LAUNCHER = """
import os, sys
from fcntl import F_DUPFD, fcntl
read, write = (fcntl(end, F_DUPFD, 10) for end in ({read}, {write}))  # out of the way of 3 and 4
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[1], sys.argv[1:])
"""
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Chromium:
    """One tab of one browser."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer, self._last_id, self._session = b"", 0, ""
        self.complaints: list[str] = []
        """Everything that a developer would see in red: exceptions, console errors and warnings, failed loads."""
        self.requests: list[str] = []
        """Every address that the page asked for."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its result; events that arrive meanwhile are noted."""
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last_id:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result

    def wait_for(self, event: str) -> None:
        """Wait until an event arrives."""
        while self._read().get("method") != event:
            pass

    def open(self, page: Path | str, width: int = 1280, height: int = 800, *, scheme: str = "light") -> None:
        """Load a file, or an address, in a window of this size and colour scheme."""
        self.complaints.clear()
        self.requests.clear()
        narrow = width < 600
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if narrow else 1,
            mobile=narrow,
        )
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.send("Page.navigate", url=page.resolve().as_uri() if isinstance(page, Path) else page)
        self.wait_for("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        done = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def hover(self, x: float, y: float) -> None:
        """Move the mouse."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, selector: str) -> None:
        """Click the middle of an element, with the mouse, after scrolling to it."""
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save what the window shows, or the whole page."""
        image = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole))
        path.write_bytes(base64.b64decode(image["data"]))

    def pdf(self) -> bytes:
        """The page as printed."""
        done = self.send("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        return base64.b64decode(done["data"])

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            chunk = os.read(self._answers, 1 << 16)
            assert chunk, "Chromium has ended"
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, details: dict[str, Any]) -> None:
        match event:
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(details["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if details["type"] in ("error", "warning", "assert"):
                self.complaints.append(json.dumps(details["args"]))
            case "Log.entryAdded" if details["entry"]["level"] in ("error", "warning"):
                self.complaints.append(json.dumps(details["entry"]))
            case "Network.requestWillBeSent":
                self.requests.append(details["request"]["url"])


@contextmanager
def started(chromium: str, profile: Path) -> Iterator[Chromium]:
    """A running browser with an empty profile; ended with the block."""
    for_chromium, commands = os.pipe()
    answers, from_chromium = os.pipe()
    launcher = LAUNCHER.format(read=for_chromium, write=from_chromium)
    arguments = [sys.executable, "-c", launcher, chromium, *OPTIONS, f"--user-data-dir={profile}"]
    with subprocess.Popen(
        arguments,
        pass_fds=(for_chromium, from_chromium),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(for_chromium)
        os.close(from_chromium)
        try:
            yield Chromium(commands, answers)
        finally:
            with suppress(OSError):
                os.write(commands, b'{"id": 0, "method": "Browser.close"}\0')
            os.close(commands)
            os.close(answers)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            process.kill()
