"""A stand-in for the Hub on this machine: one dataset repository at one commit, and a list of what was asked of it."""

import hashlib
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from oelm.data.hub import HubDataset


@dataclass
class HubServer:
    """A repository that can be read through `huggingface_hub` and `datasets`."""

    dataset: HubDataset
    files: dict[str, bytes]
    address: str = ""
    fetched: list[str] = field(default_factory=list)
    """The files whose content was sent, in order."""
    broken: set[str] = field(default_factory=set)
    """Files whose content is cut off in the middle."""
    gated: bool = False

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a request."""
        api, files = f"/api/datasets/{self.dataset.repository}/", f"/datasets/{self.dataset.repository}/resolve/"
        if path.startswith(api):
            kind, revision, *rest = path.removeprefix(api).split("/", 2)
            if revision not in (self.dataset.revision, "main"):
                return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
            if kind == "revision":
                return 200, {}, _json({"id": self.dataset.repository, "sha": self.dataset.revision, "siblings": []})
            if kind == "tree":
                return self._tree("".join(rest))
        if path.startswith(files):
            _, name = path.removeprefix(files).split("/", 1)
            if self.gated and name in self.files:
                return 401, {"X-Error-Code": "GatedRepo"}, b"{}"
            if name in self.files:
                digest = hashlib.sha256(self.files[name]).hexdigest()
                return 200, {"ETag": f'"{digest}"', "X-Repo-Commit": self.dataset.revision}, self.files[name]
        return 404, {"X-Error-Code": "EntryNotFound"}, b"{}"

    def _tree(self, folder: str) -> tuple[int, dict[str, str], bytes]:
        inside = {
            name: content for name, content in self.files.items() if name.startswith(f"{folder}/" if folder else "")
        }
        if not inside:
            return 404, {"X-Error-Code": "EntryNotFound"}, b"{}"
        depth = len(folder.split("/")) if folder else 0
        folders = sorted({"/".join(name.split("/")[: depth + 1]) for name in inside if name.count("/") > depth})
        listed = [{"type": "directory", "path": name, "oid": "0" * 40, "size": 0} for name in folders]
        for name, content in inside.items():
            if name.count("/") == depth:
                listed.append({"type": "file", "path": name, "oid": "0" * 40, "size": len(content)})
        return 200, {}, _json(listed)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


@contextmanager
def serving(server: HubServer) -> Iterator[HubServer]:
    """The server at `address`, for `HF_ENDPOINT`."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._send(body=False)

        def do_GET(self) -> None:
            self._send(body=True)

        def _send(self, *, body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            status, headers, content = server.answer(path)
            name = path.split("/resolve/", 1)[-1].partition("/")[2]
            self.send_response(status)
            for header, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(header, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body and status == 200 and "/resolve/" in path:
                server.fetched.append(name)
            if body:
                self.wfile.write(content[: len(content) // 2] if name in server.broken else content)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Nothing on standard error."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    server.address = f"http://127.0.0.1:{http.server_port}"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def parquet_bytes(rows: list[str]) -> bytes:
    """A file of the Hub."""
    buffer = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array(rows, pa.string())}), buffer, row_group_size=2)
    return buffer.getvalue()
