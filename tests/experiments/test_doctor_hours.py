"""Hours follow from what was timed; where they can only be too many, they say so."""

from pathlib import Path

import pytest
import torch

from oelm.base.runtime import choose_runtime
from oelm.config.doctor_record import Speed
from oelm.config.manifest import TokenizerKind
from oelm.config.request import TrainRequest, resolve_on
from oelm.config.run import DataConfig, Precision, RunConfig
from oelm.data.hub import HubCorpus
from oelm.data.prepare import prepare
from oelm.data.prepare_request import PrepareRequest
from oelm.data.progress import Silent
from oelm.data.sources import Files, Hub, Stories
from oelm.experiments import doctor_hours
from oelm.experiments.doctor_bench import Bench
from oelm.experiments.doctor_hours import study_hours

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
TINYSTORIES, OPENWEBTEXT, WIKITEXT = (Hub(corpus=each) for each in HubCorpus)


def speed(size: str, width: int, precision: str, flops: float) -> Speed:
    return Speed(
        size=size, width=width, precision=Precision(precision), device="cpu", sequences=2, step_seconds=1.0,
        tokens_per_second=512.0, flops_per_second=flops, peak_bytes=1,
    )  # fmt: skip


FLOAT32 = [speed("small", 256, "float32", 1e9), speed("medium-512", 512, "float32", 2e9)]


def run_of(folder: Path | str = "-", **settings: object) -> RunConfig:
    request = TrainRequest.model_validate({"method": "baseline", "size": "tiny", "seq_len": 64, **settings})
    return resolve_on(request, 512, DataConfig(folder=str(folder), name="stories", digest="d"))


def test_a_study_that_cannot_be_planned_loses_nothing_else(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("title: [\n")
    first, second = (study_hours(path, FLOAT32) for path in (broken, EXPERIMENTS / "cpu" / "quick.yaml"))
    assert (first.study, first.runs, first.hours) == ("broken", 0, None)
    assert "broken.yaml" in first.by
    assert second.hours is not None


def test_hours_count_validation() -> None:
    often, never = (
        doctor_hours._run_flops(run_of(steps=100, batch_size=8, validate_every=every), None, 80) for every in (10, 1000)
    )
    assert often is not None
    assert never is not None
    assert often == pytest.approx(never * (1 + 10 * 80 / 3 / 800), rel=1e-2)


def test_a_precision_that_was_timed_in_one_size_holds_in_proportion_for_the_other() -> None:
    """float16 is many times slower on a CPU: a study in it does not take the hours of float32."""
    low = [speed("small", 256, "bf16", 3e9), speed("small", 256, "float16", 1e8)]
    m512, bf16 = (study_hours(EXPERIMENTS / "original" / "m512.yaml", timed) for timed in (FLOAT32, [*FLOAT32, *low]))
    assert m512.hours is not None
    assert bf16.hours == pytest.approx(m512.hours / 3)
    assert m512.by == "medium-512 in float32 on cpu, though bf16 was not timed"
    assert bf16.by == "medium-512 in float32 on cpu, scaled to bf16 as small was"
    rates = doctor_hours._rates([*FLOAT32, *low])
    small, large = (
        doctor_hours._nearest(run_of(precision="float16", width=width, heads=2), rates) for width in (128, 1024)
    )
    assert (small.flops_per_second, small.by) == (1e8, "small in float16 on cpu")
    assert large.flops_per_second == pytest.approx(2e8)


def test_a_gpu_whose_float32_does_not_fit_goes_by_what_does() -> None:
    rates = doctor_hours._rates([speed("small", 256, "float32", 1e9), speed("medium-512", 512, "bf16", 8e9)])
    found = doctor_hours._nearest(run_of(precision="bf16", width=1024, heads=2), rates)
    assert (found.flops_per_second, found.by) == (8e9, "medium-512 in bf16 on cpu")


@pytest.mark.parametrize(
    ("request_", "tokens"),
    [
        (PrepareRequest(source=WIKITEXT), 287_500),
        (PrepareRequest(source=TINYSTORIES), 4_825_000),
        (PrepareRequest(source=OPENWEBTEXT, max_bytes=430_000_000, holdout_bytes=4_500_000), 1_125_000),
        (PrepareRequest(source=OPENWEBTEXT), 2_500_000),
        (PrepareRequest(source=OPENWEBTEXT, max_bytes=1_000_000, tokenizer=TokenizerKind.BYTES), 100_000),
        (PrepareRequest(source=Stories(text_bytes=4_000_000)), 100_000),
        (PrepareRequest(source=Stories(count=10)), None),
        (PrepareRequest(source=OPENWEBTEXT, max_documents=10), None),
        (PrepareRequest(source=Files(paths=("a.txt",))), None),
    ],
)
def test_the_validation_set_is_as_large_as_its_text(request_: PrepareRequest, tokens: int | None) -> None:
    found = doctor_hours._validation_tokens(Path("nowhere"), request_)
    assert found == (None if tokens is None else pytest.approx(tokens))


def test_a_limit_beyond_the_text_is_not_counted(tmp_path: Path) -> None:
    """10,000 sequences stand in the original's studies for all that there is."""
    wikitext = PrepareRequest(source=WIKITEXT)
    assert doctor_hours._validated(run_of(validation_sequences=10_000, seq_len=512), wikitext) == (561, True)
    assert doctor_hours._validated(run_of(validation_sequences=100, seq_len=512), wikitext) == (100, True)
    half = run_of(validation_sequences=10_000, seq_len=512, validation_half="first")
    assert doctor_hours._validated(half, wikitext) == (280, True)
    files = PrepareRequest(source=Files(paths=("a.txt",)))
    assert doctor_hours._validated(run_of(validation_sequences=10_000), files) == (10_000, False)
    manifest = prepare(
        PrepareRequest(source=Stories(text_bytes=40_000), vocabulary=300), tmp_path / "tokens", progress=Silent()
    )
    prepared = run_of(tmp_path / "tokens", validation_sequences=10_000)
    assert doctor_hours._validated(prepared, files) == (manifest.valid.tokens // 64, True)


def test_the_originals_hours_are_those_of_its_steps() -> None:
    wikitext = study_hours(EXPERIMENTS / "original" / "gpt-wikitext103.yaml", FLOAT32)
    files = study_hours(EXPERIMENTS / "confirmation" / "docs-small.yaml", FLOAT32)
    assert (wikitext.at_most, files.at_most) == (False, True)
    config = run_of(size="medium-512", seq_len=512, dropout=0.1, steps=200_000, batch_size=8, validate_every=200_001)
    baseline = doctor_hours._run_flops(config.model_copy(update={"model": medium()}), None, 0)
    assert baseline is not None
    assert wikitext.hours is not None
    both = 2 * baseline / 2e9 / 3600
    assert 0.9 * both < wikitext.hours < 1.03 * both, "41 % more were said when 10,000 sequences counted"


def medium() -> object:
    request = TrainRequest.model_validate({"method": "baseline", "size": "medium-512", "seq_len": 512})
    return resolve_on(request, 50_257, DataConfig(folder="-", name="w", digest="d")).model


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps"])
def test_a_cpu_times_low_precisions_in_the_small_size_only(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_hours, "lacking", lambda *_: None)
    found = doctor_hours._what_is_timed(torch.device(device))
    assert found[:2] == [("small", "float32"), ("medium-512", "float32")]
    assert len(found) == (4 if device == "cpu" else 6)
    assert {precision for size, precision in found if size == "small"} == {"float32", "bf16", "float16"}


def test_where_a_gpu_cannot_be_timed_the_cpu_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = []

    def fails_on_mps(_bench: Bench, runtime: object, size: str, precision: Precision) -> Speed:
        timed.append((runtime, size, precision))
        if runtime == mps:
            raise RuntimeError("no such operation")
        return FLOAT32[0]

    mps = type("Mps", (), {"device": torch.device("mps")})()
    monkeypatch.setattr(doctor_hours, "_speed", fails_on_mps)
    monkeypatch.setattr(doctor_hours, "lacking", lambda *_: None)
    found = doctor_hours.timed_speeds(Bench(tmp_path, "mps"), mps, lambda _said: None)
    assert len(found) == 4
    assert [runtime for runtime, *_ in timed].count(mps) == 6


def test_the_peak_of_a_speed_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_hours, "_TIMED_SECONDS", 0.0)
    monkeypatch.setattr(doctor_hours, "_SIZES", {"tiny": (64, 512)})
    bench = Bench(tmp_path, "cpu")
    prepare(PrepareRequest(source=Stories(text_bytes=100_000), vocabulary=512), bench.tokens, progress=Silent())
    runtime = choose_runtime("cpu")
    torch.ones(2**28)  # 1 GiB
    assert doctor_hours._speed(bench, runtime, "tiny", Precision.FLOAT32).peak_bytes < 2**30
