"""Write every table of README.md anew from the records under results/ (`make results`); a test compares them."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import finetune_step
import step_time

from oelm.report.accuracy import accuracy_rows
from oelm.report.accuracy import as_markdown as accuracy_markdown
from oelm.report.comparison import compare_runs
from oelm.report.markdown import as_markdown
from oelm.report.rows import load_records

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"


def quickstart() -> str:
    """The comparison that `make demo` ends with."""
    return as_markdown(compare_runs([RESULTS / "quickstart"]))


def sst2() -> str:
    """The fine-tuning study."""
    return accuracy_markdown(accuracy_rows(load_records([RESULTS / "sst2" / "final"])))


def step_times() -> str:
    """Step times of our GPT."""
    record = _read("step-time/small.json")
    ours = record["baseline_over_hugging_face"]
    return (
        f"Our baseline takes {ours['median']:.2f} of the time of Hugging Face GPT-2 in a plain loop (quartiles "
        f"{ours['lower_quartile']:.2f} to {ours['upper_quartile']:.2f}).\n\n{step_time.table(record)}"
    )


def finetune_steps() -> str:
    """Step times and memory of fine-tuning."""
    return finetune_step.table(_read("finetune-step/minilm.json"))


REGIONS: dict[str, Callable[[], str]] = {
    "oelm compare results/quickstart --format md": quickstart,
    "oelm compare results/sst2/final --format md": sst2,
    "step-time": step_times,
    "finetune-step": finetune_steps,
}


def filled(text: str) -> str:
    """The text with every region `<!-- begin: NAME -->` ... `<!-- end -->` written anew."""

    def write(match: re.Match[str]) -> str:
        return f"<!-- begin: {match[1]} -->\n{REGIONS[match[1]]().strip()}\n<!-- end -->"

    return re.sub(r"<!-- begin: (.*?) -->\n.*?<!-- end -->", write, text, flags=re.DOTALL)


def _read(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text(encoding="utf-8")), encoding="utf-8")
