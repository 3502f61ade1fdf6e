"""What `oelm experiment status` shows of a run."""

from io import StringIO
from pathlib import Path

from oelm.base.console import Console
from oelm.experiments.ownership import Claim
from oelm.experiments.run_status import RunStatus, Status, status_of
from oelm.experiments.tables import StatusTable
from oelm.train.folder import RunFolder
from train.toys import trained

from .toy_studies import toy_run


def shown(run_status: RunStatus, width: int = 200) -> list[str]:
    printed = StringIO()
    Console(width=width, file=printed).print(StatusTable([run_status]))
    return [line for line in printed.getvalue().splitlines() if line.strip()]


def test_a_run_from_the_queue_to_its_record(tmp_path: Path) -> None:
    run = toy_run(tmp_path, "run", steps=20, validate_every=5)
    assert status_of(run).status is Status.WAITING
    run.folder.mkdir()
    claim = Claim.take(run.folder)
    assert claim is not None
    claim.submitted("slurm", "7_0", "slurm 7_0")
    queued = status_of(run)
    assert (queued.status, queued.device) == (Status.QUEUED, "slurm 7_0")

    with RunFolder(run.folder).opened(run.config, resume=False):
        assert status_of(run).status is Status.RUNNING
    claim.give_back()  # as if its coordinator had been killed
    assert status_of(run).status is Status.WAITING
    assert status_of(run, queued={"7_0"}).status is Status.QUEUED, "SLURM has it still"

    record = trained(run.config, run.folder)
    now = status_of(run)
    assert now.state is not None
    assert now.state.best["loss"] == min(point.loss for point in record.curve)
    heading, *_, line = shown(now)
    for column in ("step", "loss", "perplexity", "best", "tokens/s", "left", "elapsed", "device"):
        assert column in heading
    assert "20/20" in line
    assert f"{now.state.best['perplexity']:.2f}" in line
    assert " s" in line, "how long it took"


def test_a_running_run_shows_its_device_and_its_use(tmp_path: Path) -> None:
    run = toy_run(tmp_path, "run", steps=2)
    trained(run.config, run.folder)
    RunFolder(run.folder).record_file.unlink()
    with RunFolder(run.folder).opened(run.config, resume=True):
        state = RunFolder(run.folder).state()
        assert state is not None
        assert state.utilisation is not None
        assert 0 <= state.utilisation <= 1
        assert state.memory_bytes is not None
        assert state.memory_bytes > 50e6
        known = state.model_copy(update={"utilisation": 0.93, "memory_bytes": 21_000_000_000, "elapsed_seconds": 5400})
        RunFolder(run.folder).state_file.write_text(known.model_dump_json())
        line = shown(status_of(run))[-1]
    assert "93 %, 21 GB" in line
    assert "1 h 30 min" in line


def test_a_narrow_terminal_shows_whole_names_and_fewer_columns(tmp_path: Path) -> None:
    name = "baseline+shift+gain-lr0.004[b]"
    run = toy_run(tmp_path, name, steps=20, validate_every=5)
    trained(run.config, run.folder)
    now = status_of(run)
    everything = len(shown(now)[0].rstrip())
    for width in (everything + 20, 80, 64):
        heading, _, line = shown(now, width)
        assert name in line
        assert "finished" in line
        assert "20/20" in line
        assert f"{now.measures['perplexity']:.2f}" in line
        assert "\u2026" not in heading + line, "nothing is cut off"
        assert max(map(len, (heading.rstrip(), line.rstrip()))) <= width
    assert len(shown(now, 30)) > 3, "where even the needed ones do not fit, names are folded"
