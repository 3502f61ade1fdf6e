"""Write every table of README.md anew from the records under results/ (`make results`); a test compares them."""

import re
from collections.abc import Callable
from pathlib import Path

from oelm.bench.show import read_record, sheet_markdown
from oelm.bench.words import machine_line, sheets
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


def training_steps() -> str:
    """Training steps of our GPT beside its peers."""
    return _bench("small.json")


def finetuning_steps() -> str:
    """Fine-tuning steps of a BERT."""
    return _bench("bert.json")


REGIONS: dict[str, Callable[[], str]] = {
    "oelm compare results/quickstart --format md": quickstart,
    "oelm compare results/tinystories --format md": tinystories,
    "oelm compare results/sst2/final --format md": sst2,
    "oelm bench --show results/bench/small.json --format md": training_steps,
    "oelm bench --show results/bench/bert.json --format md": finetuning_steps,
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


def _bench(name: str) -> str:
    """The first table of a speed record; how it was measured opens at a click."""
    record = read_record(RESULTS / "bench" / name)
    sheet = sheets(record)[0]
    remarks = "\n".join(f"- {remark}" for remark in (f"{sheet.title}; {machine_line(record)}.", *sheet.remarks))
    summary = "<summary>What the columns are, and on what it was measured</summary>"
    return "\n".join([sheet_markdown(sheet), "", "<details>", summary, "", remarks, "", "</details>"])


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text(encoding="utf-8")), encoding="utf-8")
