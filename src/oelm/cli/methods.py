"""`oelm methods`: the named methods and how to vary them."""

from rich.console import Console
from rich.table import Table

from oelm.config.methods import MODIFIERS, SUMMARIES


def methods() -> None:
    """List the named methods and the modifiers that vary them."""
    console = Console()
    table = Table("method", "what it is", box=None, header_style="bold")
    for name, summary in SUMMARIES.items():
        table.add_row(name, summary)
    console.print(table)
    console.print("\nVary any of them by name, e.g. [bold]baseline+shift+gain[/] or [bold]oelm+until=0.1[/]:")
    for _, usage in MODIFIERS.values():
        console.print(f"  {usage}", highlight=False)
