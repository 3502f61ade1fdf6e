"""Files that were damaged, and the commands that read them.

A command may refuse a damaged file in one line, or say that it left it out; if it succeeds in silence, its result must
be the one that it has without the damage.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz.called import called
from fuzz.places import SETTINGS, World
from train.processes import Ended
from train.toys import flags, last_weights, timeless_events, timeless_record

RUN = "runs/unfinished"
DONE = "runs/finished"
CHECKPOINT = "checkpoint/step-00000002"


@dataclass(frozen=True)
class Attack:
    """A file, what is done to it, and the command that is asked afterwards."""

    file: str
    damage: str
    place: float
    """Where in the file, from 0 to 1."""
    content: bytes
    command: str


def _flip(content: bytes, place: int, _new: bytes) -> bytes:
    changed = bytearray(content)
    if changed:
        changed[place] ^= 1 << (place % 8)
    return bytes(changed)


BYTES: dict[str, Callable[[bytes, int, bytes], bytes]] = {
    "flipped": _flip,
    "cut": lambda content, place, _new: content[:place],
    "inserted": lambda content, place, new: content[:place] + new + content[place:],
    "replaced": lambda _content, _place, new: new,
    "zeroed": lambda content, place, _new: content[:place] + bytes(len(content) - place),
    "doubled": lambda content, _place, _new: content + content,
}
VALUES: dict[str, Any] = {
    "a number": 10**30,
    "infinity": float("inf"),
    "negative": -1,
    "text": "\x1b[2J[/x]`",
    "half a character": "\ud800",
    "nothing": None,
    "a list": [],
    "a long text": "x" * 100_000,
    "deep": json.loads("[" * 200 + "]" * 200),
}
KINDS = ["gone", "a folder", "a pipe", "a link to itself", "a link to nowhere"]

RESUMED = ["config.yaml", "events.jsonl", "state.json", "manifest.json", "freeze_audit.json", "tokenizer.json"]
RESUMED += ["train.log", *(f"{CHECKPOINT}/{name}" for name in ("model.safetensors", "training.safetensors"))]
RESUMED += [f"{CHECKPOINT}/training.json", f"{CHECKPOINT}/digests.json"]
ASKED = ["config.yaml", "manifest.json", "tokenizer.json", "record.json"]
ASKED += [f"checkpoint/step-00000004/{name}" for name in ("model.safetensors", "training.json", "digests.json")]
TARGETS: dict[str, list[str]] = {
    "resume": [f"{RUN}/{name}" for name in RESUMED],
    "resume by folder": [f"{RUN}/{name}" for name in RESUMED],
    "train": [f"tokens/{name}" for name in ("manifest.json", "train.bin", "valid.bin", "tokenizer.json")],
    "compare": [f"{DONE}/record.json"],
    "page": [f"{DONE}/record.json"],
    "generate": [f"{DONE}/{name}" for name in ASKED],
    "export": [f"{DONE}/{name}" for name in ASKED],
    "plan": ["study.yaml"],
    "prepare": ["tokens/request.json", "tokens/manifest.json", "tokens/train.bin"],
    "prepare text": ["text.jsonl"],
    "ask": ["items.jsonl"],
    "transformers": ["exported/config.json", "exported/model.safetensors", "exported/tokenizer.json"],
}
MAY_DIFFER = {"plan", "prepare text", "ask", "transformers"}
"""Their files carry no digest: a changed word is another study, another text, another model."""


@st.composite
def attacks(draw: st.DrawFn) -> Attack:
    command = draw(st.sampled_from(sorted(TARGETS)))
    file = draw(st.sampled_from(TARGETS[command]))
    damages = [*BYTES, *BYTES, *KINDS, *([*VALUES, *VALUES] if file.endswith(".json") else [])]
    content = draw(st.sampled_from([b"", b"\xff\xff", b"{}", b"[]", b"null", b"a: 1\n", b"[" * 100_000, b"\x1b[2J"]))
    return Attack(file, draw(st.sampled_from(damages)), draw(st.floats(0, 1)), content, command)


def damage(root: Path, attack: Attack) -> bool:
    """Do it; False if nothing is different afterwards."""
    path = root / attack.file
    before = path.read_bytes()
    match attack.damage:
        case "gone":
            path.unlink()
        case "a folder" | "a pipe" | "a link to itself" | "a link to nowhere":
            path.unlink()
            _put(path, attack.damage)
        case name if name in BYTES:
            place = min(len(before) - 1, int(attack.place * len(before)))
            path.write_bytes(BYTES[name](before, max(0, place), attack.content))
        case name:
            path.write_text(json.dumps(_with_value(json.loads(before), attack.place, VALUES[name])))
    return not path.is_file() or path.read_bytes() != before


def _put(path: Path, kind: str) -> None:
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "a link to itself" else path.with_name("nowhere"))


def _with_value(value: Any, place: float, new: Any) -> Any:
    """The value with one part, by its place among all of them, replaced."""
    spots: list[tuple[Any, Any]] = []

    def look(part: Any) -> None:
        for key, inside in part.items() if isinstance(part, dict) else enumerate(part):
            spots.append((part, key))
            if isinstance(inside, dict | list):
                look(inside)

    if isinstance(value, dict | list):
        look(value)
    if not spots:
        return new
    part, key = spots[min(len(spots) - 1, int(place * len(spots)))]
    part[key] = new
    return value


def asked(world: World, command: str) -> Ended:
    """The command, with everything in its place."""
    root = world.root
    commands: dict[str, list[str | Path]] = {
        "resume": [*flags(**SETTINGS, data="tokens", out_dir=RUN), "--resume"],
        "resume by folder": ["train", "--resume", "--out-dir", RUN],
        "train": [*flags(**SETTINGS, data="tokens", out_dir="runs/new")],
        "compare": ["compare", "runs"],
        "page": ["report", "runs", "-o", "page.html"],
        "generate": ["generate", DONE, "--tokens=5", "--device=cpu"],
        "export": ["export", DONE, "--out", "new"],
        "plan": ["experiment", "plan", "study.yaml", "--tflops=1"],
        "prepare": ["prepare", "toy.txt", "--tokenizer=bytes", "--out=tokens"],
        "prepare text": ["prepare", "text.jsonl", "--tokenizer=bytes", "--out=made"],
        "ask": ["eval", DONE, "--suite=choices", "--items=items.jsonl", "--device=cpu"],
        "transformers": ["generate", "exported", "--tokens=3", "--device=cpu"],
    }
    return called(*commands[command], cwd=root)


def results(world: World, command: str, ended: Ended) -> object:
    """What must be as without the damage."""
    root = world.root
    match command:
        case "resume" | "resume by folder":
            run = root / RUN
            return last_weights(run), timeless_events(run), timeless_record(run)
        case "train":
            return last_weights(root / "runs" / "new"), timeless_events(root / "runs" / "new")
        case "export":
            return (root / "new" / "model.safetensors").read_bytes()
        case "prepare":
            return (root / "tokens" / "train.bin").read_bytes()
        case "page":
            return None
        case _:
            return ended.out


def admitted(world: World, ended: Ended) -> bool:
    """Whether the command has said that something was damaged."""
    page = world.root / "page.html"
    said = ended.out + ended.err + (page.read_text() if page.is_file() else "")
    log = world.unfinished / "train.log"
    if log.is_file():
        said += log.read_text(errors="replace")
    return "damaged" in said or "passed over" in said or "not the one that" in said or "state.json" in said


def clear(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
