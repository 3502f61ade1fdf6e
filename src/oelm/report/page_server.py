"""A page on this machine's own address, for this machine's own browsers: read only, and no path leads to a file.

GET and HEAD of what the page answers to; any other path is 404, any other method 405. A request whose Host is not this
machine's own name is refused (403): otherwise a page from elsewhere, whose name was made to resolve to 127.0.0.1, could
read this one through the reader's browser.
"""

import errno
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from oelm.base.errors import ConfigError
from oelm.report.live_page import LivePage

ADDRESS = "127.0.0.1"
OWN_NAMES = frozenset({ADDRESS, "localhost"})
"""With any port: a tunnel (`ssh -L`) may end at another one."""
_SLOW_SECONDS = 30.0


class PageServer(ThreadingTCPServer):
    """Listens on 127.0.0.1 and nowhere else."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, page: LivePage, port: int) -> None:
        self.page = page
        try:
            super().__init__((ADDRESS, port), _Reader)
        except (OSError, OverflowError) as error:
            in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            problem = f"port {port} of {ADDRESS} {'is in use' if in_use else f'cannot be had ({error})'}"
            raise ConfigError(problem, "give another --port; 0 takes any that is free") from error

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away before it had its answer."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Reader(BaseHTTPRequestHandler):
    """One request."""

    server: PageServer
    server_version, sys_version = "oelm", ""
    timeout = _SLOW_SECONDS

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        answer = self.server.page.answer(self.path) if host.lower() in OWN_NAMES else None
        if answer is None:
            self.send_error(HTTPStatus.NOT_FOUND if host.lower() in OWN_NAMES else HTTPStatus.FORBIDDEN)
        elif self.headers.get("If-None-Match") == f'"{answer.tag}"':
            self._send(HTTPStatus.NOT_MODIFIED, answer.kind, b"", answer.tag)
        else:
            self._send(HTTPStatus.OK, answer.kind, answer.content, answer.tag)

    do_HEAD = do_GET  # `_send` leaves the content out

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Refuse in a few words of our own. What the library does not know as a method is not allowed here."""
        status = HTTPStatus(code)
        if status is HTTPStatus.NOT_IMPLEMENTED:
            status = HTTPStatus.METHOD_NOT_ALLOWED
        self._send(status, "text/plain; charset=utf-8", f"{status.value} {status.phrase}\n".encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes, tag: str = "") -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Security-Policy": self.server.page.policy,
            "Cache-Control": "no-cache",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Connection": "close",
        }
        if tag:
            headers["ETag"] = f'"{tag}"'
        if status is not HTTPStatus.NOT_MODIFIED:
            headers["Content-Length"] = str(len(content))
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET, HEAD"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002 (the library's name)
        """Say nothing: the terminal shows the address, and stays as it is."""
