"""What several verbs share: options in panels, the choice of a checkpoint, and what the person has really given."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from typer import Context, Option

from oelm.base.errors import ConfigError


class Checkpoint(StrEnum):
    """Which weights of a run."""

    LAST = "last"
    BEST = "best"


def panel(title: str) -> Callable[..., Any]:
    """A maker of options that stand together under a title: `run("Help.", "--name", "--other-name")`."""

    def option(text: str, *names: str, **settings: Any) -> Any:
        return Option(*names, help=text, rich_help_panel=title, **settings)

    return option


def precision_of(*, bf16: bool, fp16: bool) -> str:
    """The precision that two flags ask for."""
    if bf16 and fp16:
        raise ConfigError("both --bf16 and --fp16 (--use-amp) given", "give one of them")
    return "bf16" if bf16 else "float16" if fp16 else "float32"


def given_parameters(context: Context) -> dict[str, str]:
    """The options on the command line, by parameter: `{"data": "--data", "steps": "--steps"}`."""
    return {
        option.name: option.opts[0]
        for option in context.command.params
        if option.name and getattr(context.get_parameter_source(option.name), "name", None) == "COMMANDLINE"
    }
