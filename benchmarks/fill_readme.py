"""Write every table of README.md and docs/speed.md, and the plots of speed, anew from the records under results/.

`make results` calls it; a test compares.
"""

import re
from collections.abc import Callable
from pathlib import Path

from oelm.bench.plots import write_plots
from oelm.bench.show import read_record, relative_to, sheet_markdown
from oelm.bench.words import machine_line, sheets
from oelm.report.groups import report_runs
from oelm.report.write_markdown import as_markdown

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"


def quickstart() -> str:
    """The comparison that `make demo` ends with."""
    return _folded(as_markdown(report_runs([RESULTS / "quickstart"])))


def tinystories() -> str:
    """The screening of frozen-attention variants."""
    return _folded(as_markdown(report_runs([RESULTS / "tinystories"])))


def sst2() -> str:
    """The fine-tuning study."""
    return _folded(as_markdown(report_runs([RESULTS / "sst2" / "final"])))


STUDIES: dict[str, Callable[[], str]] = {
    "oelm compare results/quickstart --format md": quickstart,
    "oelm compare results/tinystories --format md": tinystories,
    "oelm compare results/sst2/final --format md": sst2,
}
FILES = (ROOT / "README.md", ROOT / "docs/speed.md")


def region(command: str) -> str:
    """What a command prints, as the documents show it."""
    if command in STUDIES:
        return STUDIES[command]()
    found = re.fullmatch(r"oelm bench --show results/bench/(\S+)\.json(?: --reference (\S+))? --format md", command)
    if found is None:
        raise ValueError(f"no table is known for `{command}`")
    return _bench(found[1], found[2])


def filled(text: str) -> str:
    """The text with every region `<!-- begin: COMMAND -->` ... `<!-- end -->` written anew."""

    def write(match: re.Match[str]) -> str:
        return f"<!-- begin: {match[1]} -->\n{region(match[1]).strip()}\n<!-- end -->"

    return re.sub(r"<!-- begin: (.*?) -->\n.*?<!-- end -->", write, text, flags=re.DOTALL)


def _folded(markdown: str) -> str:
    """The table as it stands; the sentences below it open at a click."""
    lines = markdown.strip().splitlines()
    end = max(index for index, line in enumerate(lines) if line.startswith("|")) + 1
    rest = "\n".join(lines[end:]).strip()
    summary = "<summary>Every arm in a sentence, confounds, and how it was computed</summary>"
    return "\n".join([*lines[:end], "", "<details>", summary, "", rest, "", "</details>"])


def _bench(name: str, reference: str | None) -> str:
    """The tables of a speed record; how they were measured opens at a click."""
    record = read_record(RESULTS / "bench" / f"{name}.json")
    record = relative_to(record, reference) if reference else record
    found = sheets(record)
    tables = [f"*{sheet.title}*\n\n{sheet_markdown(sheet)}" for sheet in found]
    remarks = dict.fromkeys(remark for sheet in found for remark in sheet.remarks)
    listed = "\n".join(f"- {remark}" for remark in (f"{machine_line(record)}.", *remarks))
    summary = "<summary>What the columns are, and on what it was measured</summary>"
    return "\n\n".join([*tables, f"<details>\n{summary}\n\n{listed}\n\n</details>"])


def write_plots_of_speed() -> None:
    """The plots of docs/speed.md."""
    for record in sorted((RESULTS / "bench").glob("*.json")):
        write_plots(read_record(record), ROOT / "docs/plots", record.stem)


if __name__ == "__main__":
    for path in FILES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    write_plots_of_speed()
