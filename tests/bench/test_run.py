"""Tiny real measurements of every kind."""

import subprocess
from statistics import median

import pytest

from oelm.base.errors import BenchError
from oelm.bench.bench_record import BenchRecord
from oelm.bench.memory import peak_of
from oelm.bench.parallel import parallel_row
from oelm.bench.run_bench import run_bench
from oelm.bench.spec import Peer, What, specs_of
from oelm.bench.words import sheets
from oelm.config.model import Style

from .specs import TINY, tiny, tiny_spec


@pytest.fixture(autouse=True)
def _small_product(monkeypatch):
    monkeypatch.setattr("oelm.bench.device_peak.CPU_SIDE", 128)


def run(request) -> BenchRecord:
    said = []
    record = run_bench(request, said.append)
    assert said
    assert BenchRecord.model_validate_json(record.model_dump_json()) == record
    return record


def test_training_steps_of_methods_and_peers():
    (bench,) = run(tiny(What.TRAIN)).steps
    assert [row.name for row in bench.rows] == ["baseline", "oelm", "Hugging Face GPT-2", "plain PyTorch GPT"]
    baseline, oelm, *peers = bench.rows
    assert baseline.ratio is None
    assert baseline.flop_bound == 1
    assert 0.8 < oelm.flop_bound < 1
    assert [peer.flop_bound for peer in peers] == [1, 1]
    for row in bench.rows:
        assert len(row.seconds) == 6
        assert 0 < row.best_seconds <= min(row.seconds)
        assert row.tokens_per_second == pytest.approx(16 / row.median_seconds)
        assert row.share == pytest.approx(bench.useful_flops / row.best_seconds / bench.peak.flops_per_second)
        assert row.peak_bytes is None


def test_llama_style_beside_transformers_llama():
    request = tiny(What.TRAIN).model_copy(update={"style": Style.LLAMA, "reference": "hugging-face"})
    (bench,) = run(request).steps
    assert [row.name for row in bench.rows] == ["baseline", "oelm", "Hugging Face Llama"]
    assert next(row.name for row in bench.rows if row.ratio is None) == "Hugging Face Llama"
    assert "llama style, 1 layer" in sheets(run(request))[0].title


def test_another_reference():
    request = tiny(What.TRAIN).model_copy(update={"reference": "oelm", "peers": (Peer.PLAIN,)})
    (bench,) = run(request).steps
    bounds = {row.name: row.flop_bound for row in bench.rows}
    assert bounds["oelm"] == 1
    assert bounds["baseline"] == bounds["plain PyTorch GPT"] > 1
    assert [row.name for row in bench.rows if row.ratio is None] == ["oelm"]


def test_validation_counts_the_forward_pass_only():
    request = tiny(What.VALIDATE).model_copy(update={"methods": ("baseline", "oelm", "oelm-frame"), "peers": ()})
    _, oelm, frame = run(request).steps[0].rows
    assert oelm.flop_bound == 1, "a frozen matrix is multiplied by as well"
    assert frame.flop_bound < 1


def test_generation_with_and_without_the_cache():
    rows = {row.name: row for row in run(tiny(What.GENERATE)).steps[0].rows}
    assert list(rows) == ["baseline", "oelm", "baseline, no cache", "Hugging Face GPT-2", "plain PyTorch GPT"]
    assert rows["baseline, no cache"].ratio is not None
    assert rows["baseline, no cache"].flop_bound is None
    assert rows["baseline"].tokens_per_second == pytest.approx(3 / rows["baseline"].median_seconds)


@pytest.mark.slow
def test_fine_tuning_with_and_without_checkpointing():
    methods = ("baseline", "oelm", "lora")
    request = tiny(What.FINETUNE).model_copy(update={"methods": methods})
    rows = {row.name: row for row in run(request).steps[0].rows}
    assert list(rows) == [*methods, *(f"{name}, checkpointing" for name in methods)]
    assert rows["lora"].flop_bound < rows["oelm"].flop_bound < 1, "LoRA has hardly any weight gradients"
    assert rows["baseline, checkpointing"].flop_bound == pytest.approx(4 / 3, rel=0.01)


def test_scaling_is_measured_and_fitted():
    request = tiny(What.SCALING).model_copy(update={"rounds": 2})
    (scaling,) = run(request).scaling
    assert [fit.method for fit in scaling.fits] == ["baseline", "oelm"]
    for fit in scaling.fits:
        assert len(fit.points) >= 7
        assert all(point.seconds > 0 and point.fitted_seconds > 0 for point in fit.points)


def test_efficiency_is_of_ratios_within_rounds():
    rounds = {"alone": [1.0, 2.0] * 3, "side by side": [1.25, 2.5] * 3, "together": [2.0, 4.0] * 3}
    row = parallel_row(tiny_spec(What.PARALLEL), "baseline", rounds)
    assert row.efficiency == 0.5
    assert row.communication.median == pytest.approx(1.6)


@pytest.mark.slow
def test_two_processes():
    record = run(tiny(What.PARALLEL).model_copy(update={"rounds": 2}))
    (bench,) = record.parallel
    assert (bench.processes, bench.backend) == (2, "gloo")
    for row in bench.rows:
        assert row.efficiency > 0
    baseline, oelm = bench.rows
    assert baseline.trained_bytes - oelm.trained_bytes == 4 * 2 * 16**2
    assert {row.method for row in record.paper} == {"baseline", "oelm"}


@pytest.mark.slow
def test_memory_of_a_process_of_its_own():
    """With gradients and two moments it cannot be below four times the weights, nor is it far above."""
    request = TINY.model_copy(update={"vocab_size": 124_000, "width": 64})
    (spec,) = specs_of(request)
    weights = 4 * 124_000 * 64
    assert 4 * weights < peak_of(spec, "baseline") < 10 * weights


def test_a_process_that_fails_is_reported(monkeypatch):
    failed = subprocess.CompletedProcess([], 1, stdout="", stderr="Traceback\nRuntimeError: out of memory\n")
    monkeypatch.setattr("oelm.bench.memory.subprocess.run", lambda *_args, **_kwargs: failed)
    with pytest.raises(BenchError, match=r"out of memory.*--no-memory"):
        peak_of(tiny_spec(What.TRAIN), "baseline")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute")
def test_compiled_contestants_say_how_long_it_took():
    request = tiny(What.TRAIN).model_copy(
        update={"methods": ("baseline",), "compile": True, "compiled_peers": True, "peers": (Peer.PLAIN,)}
    )
    rows = {row.name: row for row in run(request).steps[0].rows}
    assert list(rows) == ["baseline", "plain PyTorch GPT", "plain PyTorch GPT, compiled"]
    assert rows["baseline"].first_seconds > 10 * rows["baseline"].median_seconds


@pytest.mark.slow
def test_a_profile_says_where_the_time_goes():
    (profile,) = run(tiny(What.PROFILE)).profiles
    assert [row.method for row in profile.rows] == ["baseline", "oelm"]
    for row in profile.rows:
        assert sum(row.shares.values()) == pytest.approx(1)
        assert all(share >= 0 for share in row.shares.values()), row
        assert row.shares["products"] > 0
        assert row.shares["AdamW"] > 0
        assert row.step_seconds > 0


def test_preparing_is_timed_beside_the_bare_library(monkeypatch):
    monkeypatch.setattr("oelm.bench.preparing.TEXT_BYTES", 40_000)
    (bench,) = run(tiny(What.PREPARE).model_copy(update={"vocab_size": 300, "rounds": 6})).preparing
    library, ours = bench.rows
    assert library.ratio is None
    assert ours.ratio.median > 0
    assert bench.text_bytes >= 40_000
    assert library.bytes_per_second == pytest.approx(bench.text_bytes / median(library.round_seconds))
    assert ours.round_seconds != library.round_seconds
