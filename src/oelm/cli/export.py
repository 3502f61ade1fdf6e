"""`oelm export`: a run as a transformers folder."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from oelm.base.console import Console
from oelm.cli.options import Checkpoint


def export(
    run: Annotated[Path, Argument(help="A run folder.")],
    out: Annotated[Path, Option(help="The new folder.")],
    checkpoint: Annotated[Checkpoint, Option(help="The last step or the best validation.")] = Checkpoint.LAST,
) -> None:
    """Write a run as a folder that transformers loads: AutoModelForCausalLM, or the fine-tuned model."""
    from oelm.experiments.trained_run import export_run

    export_run(run, out, checkpoint.value)
    Console().print(f"written: {out}", highlight=False, soft_wrap=True)
    if any(out.glob("*.py")):
        note = "it loads after `import oelm`; where oelm is not installed, from_pretrained(..., trust_remote_code=True)"
        Console().print(note, highlight=False, soft_wrap=True)
