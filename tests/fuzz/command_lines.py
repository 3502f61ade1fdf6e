"""Command lines that nobody would write: every verb with its own options, and values that do not belong there."""

from functools import cache
from typing import Any

import click
import typer.main
from hypothesis import strategies as st

from fuzz.called import as_argument
from oelm.cli.main import VERBS, command_line

WHOLE = ["0", "-1", "1", "2", "3", "7", "007", "1e3", "2147483648", str(2**63), str(2**64), "9" * 30, "9" * 5000, "٣"]
REAL = ["0", "-1", "0.1", "1", "nan", "inf", "-inf", "1e308", "1e-308", "1e999", "-0", "0.1.2"]
WORDS = [
    "",
    " ",
    "a",
    "tiny",
    "cpu",
    "meta",
    "cuda:99",
    "llama",
    "baseline",
    "oelm",
    "oelm+thaw=0.2..0.8",
    "oelm+thin=2",
    "oelm+gain=nan",
    "oelm+layers=99999999999999999999",
    "oelm+until=1e999",
    "oelm+freeze=0.25+every=0",
    "+" * 50,
    "oelm" + "+shift" * 200,
    "[/x]",
    "[bold]",
    "\x1b[2J",
    "a\nb",
    "中文",
    "😀",
    as_argument(b"\xff\xfe"),
    "%s%n{0}",
    "x" * 300,
    "x" * 100_000,
    "-",
    "--",
    "null",
    "!!python/object:os.system",
    "seeds=[0]",
    "seeds=[[[[",
    "train.steps=2",
    "train.steps=99999999999999999999999",
    "a.b.c.d=1",
    "arms.9=1",
    "=",
]
PATHS = [
    ".",
    "..",
    "runs",
    "runs/finished",
    "runs/unfinished",
    "runs/finished/record.json",
    "runs/finished/config.yaml",
    "runs/finished/train.log",
    "tokens",
    "tokens/train.bin",
    "tokens/tokenizer.json",
    "exported",
    "study.yaml",
    "text.txt",
    "text.jsonl",
    "table.tsv",
    "items.jsonl",
    "nowhere",
    "nowhere/below",
    "pipe",
    "loop",
    "dangling",
    "/dev/null",
    "/dev/full",
    "/proc/self/mem",
    "new",
    "new.html",
    "new.md",
    "new.json",
]
TEXT = WORDS + PATHS
NEVER = {"quickstart", "doctor", "bench"}
"""They work for minutes where they are not refused; their options are drawn only together with one that is wrong."""
_SMALL = ["--layers=1", "--width=8", "--heads=1", "--steps=2", "--batch-size=1", "--device=cpu"]
ALWAYS = {
    "train": [
        "--data=tokens",
        "--out-dir=new",
        "--layers=1",
        "--width=8",
        "--heads=1",
        "--steps=2",
        "--batch-size=1",
        "--seq-len=8",
        "--device=cpu",
    ],
    "probe": ["--layers=1", "--width=8", "--heads=1", "--steps=2", "--batch-size=1", "--device=cpu"],
    "inspect": ["--layers=1", "--width=8", "--heads=1", "--vocab-size=100"],
    "generate": ["--tokens=3", "--device=cpu"],
    "finetune": ["--max-length=8", "--batch-size=2", "--epochs=0.1", "--device=cpu"],
    "eval": ["--device=cpu", "--most-tokens=50", "--tokens=3"],
}
"""What keeps a command short that is not refused; options that are drawn come behind, and win."""
FITTING = {
    "report": ["runs", "runs/finished"],
    "compare": ["runs", "runs/finished"],
    "generate": ["runs/finished", "runs/unfinished", "exported"],
    "eval": ["runs/finished"],
    "export": ["runs/finished"],
    "prepare": ["text.txt", "text.jsonl", "stories"],
    "experiment": ["study.yaml"],
}
MILD = ["1", "2", "0.5", "new", "text.txt"]
STUDY_VERBS = ["plan", "status", "logs", "attach", "new", "list", "schema"]
REFUSED = "--no-such-option"
ENDLESS = {"--watch", "--follow", "-f"}
LAST = {"prepare": ["--story-bytes=3000"]}
"""What may be as large as anybody likes, and then takes its time."""


@cache
def options_of(verb: str, part: str = "") -> list[click.Parameter]:
    """The options and arguments of a verb."""
    group: Any = typer.main.get_command(command_line([verb]))
    command = group.commands[verb]
    return list((command.commands[part] if part else command).params)


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A verb, some of its options with values of the right or the wrong kind, some words that belong nowhere."""
    verb = draw(st.sampled_from(sorted(VERBS)))
    part = draw(st.sampled_from(STUDY_VERBS)) if verb == "experiment" else ""
    known = options_of(verb, part)
    words = [verb, *([part] if part else []), *ALWAYS.get(verb, [])]
    for parameter in known:
        if isinstance(parameter, click.Argument) and draw(st.integers(0, 9)):
            most = 1 if parameter.nargs == 1 else 2
            fitting = st.sampled_from(FITTING.get(verb, PATHS))
            words += draw(st.lists(fitting | st.sampled_from(PATHS + WORDS), min_size=1, max_size=most))
    options = [each for each in known if isinstance(each, click.Option) and not ENDLESS & set(each.opts)]
    drawn = draw(st.lists(st.sampled_from(options), max_size=3)) if options else []
    for option in [*(each for each in options if each.required), *drawn]:
        words.append(draw(st.sampled_from(option.opts)))
        if not option.is_flag:
            words.append(draw(_value(option)))
    if draw(st.integers(0, 9)) == 0:
        words.append(draw(st.sampled_from(WORDS) | st.text(max_size=8)))
    return [*words, REFUSED] if verb in NEVER else [*words, *LAST.get(verb, [])]


def _value(option: click.Option) -> st.SearchStrategy[str]:
    kind = option.type.name
    fitting = WHOLE if kind.startswith("integer") else REAL if kind.startswith("float") else TEXT
    return st.sampled_from(fitting) | st.sampled_from(fitting) | st.sampled_from(MILD) | st.sampled_from(TEXT + WHOLE)
