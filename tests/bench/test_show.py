"""A record goes to JSON and back, and its tables say what it says."""

import io

import pytest
from rich.console import Console

from oelm.base.errors import ConfigError
from oelm.bench.bench_record import BenchRecord
from oelm.bench.plots import write_plots
from oelm.bench.show import print_record, read_record, record_markdown, relative_to

from .specs import made_up_record


def test_round_trip(tmp_path):
    record = made_up_record()
    path = tmp_path / "bench.json"
    path.write_text(record.model_dump_json(indent=2))
    assert read_record(path) == record
    assert BenchRecord.model_validate(record.model_dump()) == record


@pytest.mark.parametrize("content", [None, "{}", "not json", '{"kind": "bench", "unknown": 1}'])
def test_what_is_no_record_is_refused(tmp_path, content):
    path = tmp_path / "bench.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match="Fix: "):
        read_record(path)


def test_markdown_says_decided_and_not_decided():
    lines = record_markdown(made_up_record()).splitlines()
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.startswith("| ")}
    assert "| reference |" in rows["baseline"]
    assert any(line.startswith("| oelm |") and "| 0.900 | 0.900–0.900 | faster | 0.950 |" in line for line in lines)
    assert "| 1.000 | 0.800–1.200 | not decided | 1.000 |" in rows["plain PyTorch GPT"]
    assert "a processor, 1 thread of 2 cores, matmul 50 GFLOP/s, torch 2" in lines
    assert any("+10.0" in line for line in lines), "residuals of the fit"


def test_another_reference_gives_the_inverse_ratios():
    record = made_up_record()
    turned = relative_to(record, "oelm").steps[0]
    rows = {row.name: row for row in turned.rows}
    assert turned.spec.reference == "oelm"
    assert rows["oelm"].ratio is None
    assert rows["baseline"].ratio.median == pytest.approx(1 / 0.9)
    assert rows["baseline"].flop_bound == pytest.approx(1 / 0.95)
    assert relative_to(record, "nobody") == record


def test_a_peer_goes_by_the_name_that_it_is_asked_for_when_measured():
    record = made_up_record()
    turned = relative_to(record, "plain").steps[0]
    rows = {row.name: row for row in turned.rows}
    assert rows["plain PyTorch GPT"].ratio is None
    assert rows["baseline"].ratio.median == pytest.approx(1.0)
    assert [row.ratio for row in turned.rows] == [
        row.ratio for row in relative_to(record, "plain PyTorch GPT").steps[0].rows
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_the_terminal(width):
    out = io.StringIO()
    print_record(made_up_record(), Console(file=out, width=width))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    if width >= 80:
        assert any("1.000 0.800–1.200 not decided" in line for line in lines)


@pytest.mark.slow
def test_plots_are_svg_and_reproducible(tmp_path):
    pytest.importorskip("matplotlib")
    first = write_plots(made_up_record(), tmp_path / "a", "made-up")
    again = write_plots(made_up_record(), tmp_path / "b", "made-up")
    assert [path.name for path in first] == ["made-up-train-custom.svg", "made-up-scaling-custom.svg"]
    for one, other in zip(first, again, strict=True):
        assert one.read_text().startswith("<?xml")
        assert one.read_bytes() == other.read_bytes()
