"""Write every table of README.md anew from the records under results/ (`make results`); a test compares them."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import finetune_step
import step_time

from oelm.report.markdown import report_markdown
from oelm.report.report import report_runs

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"


def quickstart() -> str:
    """The comparison that `make demo` ends with."""
    return _folded(report_markdown(report_runs([RESULTS / "quickstart"])))


def tinystories() -> str:
    """The screening of frozen-attention variants."""
    return _folded(report_markdown(report_runs([RESULTS / "tinystories"])))


def sst2() -> str:
    """The fine-tuning study."""
    return _folded(report_markdown(report_runs([RESULTS / "sst2" / "final"])))


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
    "oelm compare results/tinystories --format md": tinystories,
    "oelm compare results/sst2/final --format md": sst2,
    "step-time": step_times,
    "finetune-step": finetune_steps,
}


def filled(text: str) -> str:
    """The text with every region `<!-- begin: NAME -->` ... `<!-- end -->` written anew."""

    def write(match: re.Match[str]) -> str:
        return f"<!-- begin: {match[1]} -->\n{REGIONS[match[1]]().strip()}\n<!-- end -->"

    return re.sub(r"<!-- begin: (.*?) -->\n.*?<!-- end -->", write, text, flags=re.DOTALL)


def _folded(markdown: str) -> str:
    """The table as it stands; the sentences below it open at a click."""
    lines = markdown.strip().splitlines()
    end = max(index for index, line in enumerate(lines) if line.startswith("|")) + 1
    rest = "\n".join(lines[end:]).strip()
    summary = "<summary>Every arm in a sentence, confounds, and how it was computed</summary>"
    return "\n".join([*lines[:end], "", "<details>", summary, "", rest, "", "</details>"])


def _read(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text(encoding="utf-8")), encoding="utf-8")
