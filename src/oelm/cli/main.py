"""The command `oelm`: its verbs, and how errors reach the person."""

import sys

import typer
from rich.console import Console

from oelm import __version__
from oelm.base.errors import OelmError
from oelm.cli.compare import compare
from oelm.cli.generate import generate
from oelm.cli.inspect import inspect
from oelm.cli.methods import methods
from oelm.cli.prepare import prepare
from oelm.cli.quickstart import quickstart
from oelm.cli.train import train

app = typer.Typer(
    name="oelm",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Transformers whose Query/Key projections are drawn once, head-wise orthogonal, and frozen; "
    "their baselines and ablations; and the laboratory around them.",
    epilog="Start with: oelm quickstart",
)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        print(f"oelm {__version__}")
        raise typer.Exit


for verb in (quickstart, prepare, train, inspect, generate, compare, methods):
    app.command()(verb)


def with_dashes(arguments: list[str]) -> list[str]:
    """Accept the original study's underscores: `--max_steps=5` is `--max-steps=5`. Values are left alone."""
    return [_with_dashes(argument) if argument.startswith("--") else argument for argument in arguments]


def _with_dashes(argument: str) -> str:
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value


def main() -> None:
    """Run the command; an error that the user can mend is one line on stderr and exit code 2."""
    try:
        app(args=with_dashes(sys.argv[1:]), prog_name="oelm")
    except OelmError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {_escaped(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
