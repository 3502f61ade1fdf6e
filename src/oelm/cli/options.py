"""What several verbs share: options in panels, the choice of a checkpoint, and what the person has really given."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from typer import Context, Option


class Checkpoint(StrEnum):
    """Which weights of a run."""

    LAST = "last"
    BEST = "best"


def panel(title: str) -> Callable[..., Any]:
    """A maker of options that stand together under a title: `run("Help.", "--name", "--other-name")`."""

    def option(text: str, *names: str, **settings: Any) -> Any:
        return Option(*names, help=text, rich_help_panel=title, **settings)

    return option


def given_options(context: Context) -> list[str]:
    """The options on the command line, by their first names: `["--data", "--lr"]`."""
    return [
        option.opts[0]
        for option in context.command.params
        if option.name and getattr(context.get_parameter_source(option.name), "name", None) == "COMMANDLINE"
    ]
