"""`oelm methods`: the named methods and how to vary them."""

from rich.table import Table

from oelm.base.console import Console
from oelm.config.methods import MODIFIERS, SUMMARIES


def methods() -> None:
    """List the named methods and the modifiers that vary them."""
    console = Console()
    table = Table("method", "what it is", box=None, header_style="bold")
    for name, summary in SUMMARIES.items():
        table.add_row(name, summary)
    console.print(table)
    console.print(
        "\nVary any of them by name, e.g. baseline+shift+gain or oelm+until=0.1:", style="bold", highlight=False
    )
    for _, usage in MODIFIERS.values():
        console.print(f"  {usage}", highlight=False)
