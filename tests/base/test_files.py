import contextlib
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from oelm.base.errors import StorageError, UnreadableError
from oelm.base.files import (
    PARTIAL_PREFIX,
    make_folder,
    open_regular,
    private_folder,
    read_json,
    ready_to_write,
    sweep_leftovers,
    write_bytes,
    write_json,
    write_text,
    writing_folder,
)

SIZE = 4_000_000


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_text(tmp_path / "text", "über 中文\n")
    assert (tmp_path / "text").read_bytes() == "über 中文\n".encode()
    value = {"a": [1, 2.5, None], "b": "中"}
    write_json(tmp_path / "value.json", value)
    assert read_json(tmp_path / "value.json") == value
    assert "中" in (tmp_path / "value.json").read_text(encoding="utf-8")
    assert names_in(tmp_path) == {"text", "value.json"}


def test_a_value_that_is_not_json_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "value.json", 1)
    with pytest.raises(TypeError):
        write_json(tmp_path / "value.json", {"bad": object()})
    assert read_json(tmp_path / "value.json") == 1


WRITER = """
import sys
from pathlib import Path
from oelm.base.files import write_bytes
for turn in range(10**9):
    write_bytes(Path(sys.argv[1]), bytes([97 + turn % 2]) * {size})
    print(turn, flush=True)
"""


def is_whole(content: bytes) -> bool:
    return content in (b"a" * SIZE, b"b" * SIZE)


def test_neither_a_reader_nor_a_kill_sees_a_partial_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER.format(size=SIZE), str(path)], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        seen = [path.read_bytes() for _ in range(60)]
        # A write in progress shows as a partial file beside the target: kill just then.
        while not list(tmp_path.glob(f"{PARTIAL_PREFIX}*")):
            assert writer.poll() is None
        writer.kill()
    assert all(is_whole(content) for content in seen)
    assert len(set(seen)) == 2, "the writer wrote while we read"
    assert is_whole(path.read_bytes())
    sweep_leftovers(tmp_path)
    assert names_in(tmp_path) == {"file"}


def test_the_whole_file_check_would_notice_a_plain_write() -> None:
    assert not is_whole(b"a" * (SIZE - 1))
    assert not is_whole(b"a" * (SIZE // 2) + b"b" * (SIZE // 2))


FULL_DISK = """
import resource, sys
from pathlib import Path
from oelm.base.errors import StorageError
from oelm.base.files import write_bytes, writing_folder
folder = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
def as_file():
    write_bytes(folder / "file", b"x" * 5000)
def as_folder():
    with writing_folder(folder / "folder") as partial:
        (partial / "inside").write_bytes(b"x" * 5000)
for attempt in (as_file, as_folder):
    try:
        attempt()
    except StorageError as error:
        print(error)
"""


def test_a_full_disk_is_an_error_with_a_fix_and_what_was_there_stays(tmp_path: Path) -> None:
    write_bytes(tmp_path / "file", b"old")
    with writing_folder(tmp_path / "folder") as partial:
        (partial / "inside").write_bytes(b"old")
    run = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert len(lines) == 2
    assert all("cannot write" in line and "File too large" in line and "Fix: free space" in line for line in lines)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert (tmp_path / "folder" / "inside").read_bytes() == b"old"
    assert names_in(tmp_path) == {"file", "folder"}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for attempt in (make_folder, lambda path: write_text(path, "x")):
        with pytest.raises(StorageError, match=r"cannot write .*file/below.*Fix:"):
            attempt(tmp_path / "file" / "below")


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    with writing_folder(target) as partial:
        (partial / "deep").mkdir()
        (partial / "deep" / "a").write_text("a")
        assert not target.exists()
    assert (target / "deep" / "a").read_text() == "a"
    assert names_in(tmp_path) == {"folder"}


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with writing_folder(tmp_path / "folder") as partial:
            (partial / name).write_text(name)
    assert names_in(tmp_path / "folder") == {"second"}
    assert names_in(tmp_path) == {"folder"}


def fill_and_fail(folder: Path) -> None:
    with writing_folder(folder) as partial:
        (partial / "new").write_text("new")
        raise ZeroDivisionError


def test_a_failure_inside_leaves_the_old_folder_and_no_traces(tmp_path: Path) -> None:
    with writing_folder(tmp_path / "folder") as partial:
        (partial / "old").write_text("old")
    with pytest.raises(ZeroDivisionError):
        fill_and_fail(tmp_path / "folder")
    assert names_in(tmp_path / "folder") == {"old"}
    assert names_in(tmp_path) == {"folder"}


def test_sweeping_removes_leftovers_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / f"{PARTIAL_PREFIX}file-1").write_text("x")
    (tmp_path / f"{PARTIAL_PREFIX}folder-1").mkdir()
    (tmp_path / f"{PARTIAL_PREFIX}folder-1" / "x").write_text("x")
    (tmp_path / "kept").write_text("x")
    (tmp_path / ".hidden").write_text("x")
    sweep_leftovers(tmp_path)
    assert names_in(tmp_path) == {"kept", ".hidden"}


# --- what is not ours is neither followed nor replaced --------------------------------------------------------------


def in_the_way(folder: Path, kind: str) -> Path:
    path = folder / "target"
    match kind:
        case "link":
            (folder / "precious").write_text("precious")
            path.symlink_to(folder / "precious")
        case "dangling link":
            path.symlink_to(folder / "nowhere")
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(folder):
                server.bind("target")
    return path


def fill(path: Path) -> None:
    with writing_folder(path):
        pass


WRITING = {
    "write": lambda path: write_text(path, "x"),
    "ready": ready_to_write,
    "folder": fill,
    **{mode: partial(lambda mode, path: open_regular(path, mode), mode) for mode in ("ab", "wb", "r+b")},
}


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "socket"])
@pytest.mark.parametrize("mode", WRITING)
def test_nothing_is_written_through_or_over_what_is_no_file(tmp_path: Path, kind: str, mode: str) -> None:
    path = in_the_way(tmp_path, kind)
    before = path.lstat()
    with pytest.raises(StorageError, match=r"target.*Fix:"):
        WRITING[mode](path)
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert not (tmp_path / "nowhere").exists()
    if kind == "link":
        assert (tmp_path / "precious").read_text() == "precious"


def test_permissions_are_those_of_the_umask(tmp_path: Path) -> None:
    with writing_folder(tmp_path / "folder") as partial:
        (partial / "private").touch(mode=0o600)
        (partial / "plain").touch()
    write_text(tmp_path / "file", "x")
    (tmp_path / "usual").touch()
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()}
    assert len(set(modes.values())) == 1, modes


def test_a_private_folder_is_ours_alone(tmp_path: Path) -> None:
    path = private_folder(tmp_path / "mine", "ELSEWHERE")
    assert path.stat().st_mode & 0o777 == 0o700
    path.chmod(0o777)
    assert private_folder(path, "ELSEWHERE").stat().st_mode & 0o777 == 0o700
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(StorageError, match="link"):
        private_folder(tmp_path / "link", "ELSEWHERE")
    if os.getuid() == 0:
        os.chown(path, 12345, 12345)
        with pytest.raises(StorageError, match=r"somebody else.*ELSEWHERE"):
            private_folder(path, "ELSEWHERE")


# --- what is read has limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe{}", "not UTF-8"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, "not JSON"),
        (b'{"name": "\\ud800"}', "half a surrogate pair"),
        (b'{"name": "a\\uDC00b"}', "half a surrogate pair"),
    ],
)
def test_what_is_not_json_is_refused_with_its_name(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(UnreadableError, match=rf"state\.json.*{words}.*Fix:"):
        read_json(path)


def test_whole_characters_are_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('["\\ud83d\\ude00", "\\\\ud800"]')
    assert read_json(tmp_path / "x") == ["😀", "\\ud800"]


def test_no_pipe_is_waited_for_and_no_endless_file_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableError, match="not a regular file"):
        read_json(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UnreadableError, match="at most"):
        read_json(tmp_path / "large")
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "absent")
