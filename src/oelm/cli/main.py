"""The command `oelm`: its verbs, and how errors reach the person.

Little is imported before `main` runs, so that Ctrl-C ends the start-up as quietly as the work.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from oelm import __version__
from oelm.base.errors import ConfigError, LostRankError, OelmError, StorageError

if TYPE_CHECKING:
    from typer import Typer

VERBS = {
    "quickstart": "Train six methods with paired seeds on the built-in corpus and say whether freezing cost quality.",
    "doctor": "Check this machine in ten minutes: devices, precisions, resume, data parallel; hours of each study.",
    "prepare": "Turn text into token files. Interrupted, the same command goes on where it stopped.",
    "train": "Train one model. Under torchrun every process takes part: torchrun --nproc-per-node 2 -m oelm train ...",
    "finetune": "Fine-tune a model on labelled text: chosen on a hold-out of train, evaluated once.",
    "probe": "Train one model on an in-context probe with exact answers: retrieval, recall, copy or induction.",
    "inspect": "Show what is trained, frozen and absent: counts, FLOPs, and the geometry of Q and K at init.",
    "eval": "Ask trained models about text, choices, probes, generation and attention: one table, eval.json per model.",
    "generate": "Continue prompts with a trained model; a single text appears as it is written.",
    "export": "Write a run as a folder that transformers loads: AutoModelForCausalLM, or the fine-tuned model.",
    "experiment": "A whole study from one file: new, plan, run, attach, status, logs, stop; list, schema.",
    "compare": "Compare finished runs: verdicts with intervals, tables, curves and views; printed, or as one page.",
    "report": "Compare finished runs: verdicts with intervals, tables, curves and views; printed, or as one page.",
    "bench": "Measure speed: contestants in turns, ratios with intervals, tokens/s, share of the machine, peak memory.",
    "methods": "List the named methods and the modifiers that vary them.",
}
"""Each verb `v` is the function `v` of `oelm.cli.v`, with this first line (`experiment`: a group of verbs).

Only the one that is asked for is loaded.
"""
SHORT_NAMES = {"compare": "report", "eval": "evaluate"}
"""`oelm compare` prints a table where `oelm report` writes a page; `eval` is Python's own."""

_LEADER_SECONDS = 3.0
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""How torch says it, of a GPU and of a CPU."""
_LONGEST_ERROR = 2000
"""Characters. An error may quote a name that somebody else chose."""


def command_line(arguments: list[str]) -> "Typer":
    """The command with all its verbs, of which the one in `arguments` is ready to run."""
    import typer

    def print_version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
        if version:
            print(f"oelm {__version__}")
            raise typer.Exit

    app = typer.Typer(
        name="oelm",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="Transformers whose Query/Key projections are drawn once, head-wise orthogonal, and frozen; "
        "their baselines and ablations; and the laboratory around them.",
        epilog="Start with: oelm quickstart",
    )
    app.callback(invoke_without_command=True)(print_version)
    wanted = next((argument for argument in arguments if not argument.startswith("-")), None)
    for verb, summary in VERBS.items():
        loaded = load(verb) if verb == wanted else _not_loaded
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=verb)
        else:
            app.command(name=verb, help=None if verb == wanted else summary)(loaded)
    return app


def load(verb: str) -> "Callable[..., None] | Typer":
    """The function, or the group of verbs, behind a verb."""
    name = SHORT_NAMES.get(verb, verb)
    loaded: Callable[..., None] | Typer = getattr(import_module(f"oelm.cli.{name}"), name)
    return loaded


def _not_loaded() -> None:
    raise AssertionError("only the verb that was asked for can run")


def with_dashes(arguments: list[str]) -> list[str]:
    """Accept the original study's underscores: `--max_steps=5` is `--max-steps=5`. Values are left alone."""
    return [_with_dashes(argument) if argument.startswith("--") else argument for argument in arguments]


def _with_dashes(argument: str) -> str:
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value


def main() -> None:
    """Run the command; an error that the user can fix is one line on stderr and exit code 2."""
    signal.signal(signal.SIGINT, _interrupted)
    try:
        arguments = with_dashes(sys.argv[1:])
        _refuse_unwritable(arguments)
        command_line(arguments)(args=arguments, prog_name="oelm")
    except OelmError as error:
        _refused(error)
    except (OSError, MemoryError, RecursionError) as error:
        _refused(_of_the_system(error))
    except RuntimeError as error:
        if not any(words in str(error) for words in _OUT_OF_MEMORY):
            raise
        _refused(_of_the_system(MemoryError()))
    except KeyboardInterrupt:
        sys.exit(130)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Ctrl-C. While something is being imported there is nothing to save, and some packages answer with a traceback."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            os._exit(128 + number)
        frame = frame.f_back
    raise KeyboardInterrupt


def _refuse_unwritable(arguments: list[str]) -> None:
    """Records and pages are UTF-8: what an argument says must be writable there."""
    for argument in arguments:
        if any("\ud800" <= character <= "\udfff" for character in argument):
            raise ConfigError(f"the argument {argument!r} is not UTF-8 text", "rename the file, or correct the text")


def _of_the_system(error: OSError | MemoryError | RecursionError) -> OelmError:
    """What the operating system refused and no other place explains better: a path too long, no permission, memory."""
    if isinstance(error, OSError):
        path = f" {error.filename}" if isinstance(error.filename, str) else ""
        return StorageError(f"cannot use{path}: {error.strerror or error}", "check the path, its permissions and space")
    if isinstance(error, MemoryError):
        return ConfigError("there is not enough memory for this", "make model, batch or vocabulary smaller")
    return ConfigError("something is nested too deeply", "check the files that were given")


def _refused(error: OelmError) -> NoReturn:
    if not (isinstance(error, LostRankError) and error.speaks):
        _let_the_leader_speak()
    _print_error(error)
    sys.exit(2)


def _let_the_leader_speak() -> None:
    """Hold back an error that torchrun's first process most likely has too: once that one ends, torchrun ends us."""
    if os.environ.get("RANK", "0") != "0":
        time.sleep(_LEADER_SECONDS)


def _print_error(error: OelmError) -> None:
    from rich.text import Text

    from oelm.base.console import Console

    said = Text.assemble(("error:", "bold red"), f" {' '.join(str(error)[:_LONGEST_ERROR].split())}")
    Console(stderr=True).print(said, soft_wrap=True)
