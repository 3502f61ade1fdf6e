"""What `--on slurm` submits, without a SLURM: resources, quoting, and which process SLURM's signal reaches."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oelm.base.errors import ConfigError
from oelm.experiments.resources import Resources, resources_of
from oelm.experiments.slurm_launcher import batch_script
from train.processes import until

from .studies import TEXT, study


def test_a_study_says_what_a_profile_leaves_open_and_wins_where_both_speak(tmp_path: Path) -> None:
    profile = tmp_path / "profile.yaml"
    profile.write_text("partition: gpu\nhours: 24\nmemory: 32G\n")
    asked = study(tmp_path, TEXT + "resources: {hours: 0.05}\n").study.resources
    needs = resources_of(asked, profile)
    assert (needs.partition, needs.memory, needs.minutes) == ("gpu", "32G", 3)
    assert needs.memory_bytes == 32 * 2**30
    assert resources_of(asked, None) == asked


def test_a_profile_may_be_the_block_of_a_study_file(tmp_path: Path) -> None:
    profile = tmp_path / "profile.yaml"
    profile.write_text("resources:\n  partition: gpu\n  hours: 24\n")
    asked = Resources(hours=0.05)
    assert resources_of(asked, profile) == Resources(partition="gpu", hours=0.05)
    profile.write_text("resources:\n  partition: gpu\n  hour: 24\n")
    with pytest.raises(ConfigError, match=r"line 3: resources\.hour: unknown key"):
        resources_of(asked, profile)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{hours: 0}", "resources.hours"),
        ("{memory: 32}", "resources.memory"),
        ('{sbatch: ["--qos=long\\necho no"]}', "resources.sbatch"),
        ("{sbatch: [qos=long]}", "resources.sbatch"),
        ("{gpu: 1}", "resources.gpu: unknown key"),
    ],
)
def test_wrong_resources_are_refused_with_their_line(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        study(tmp_path, TEXT + f"resources: {line}\n")
    assert complaint in str(refused.value)
    assert "line 17" in str(refused.value)


def test_options_say_what_the_resources_say() -> None:
    resources = Resources(
        cpus=4, memory="8G", hours=1.5, partition="gpu", account="lab", constraint="a100", sbatch=("--qos=long",)
    )
    script = batch_script([Path("/runs/a"), Path("/runs/b")], 2, resources)
    wanted = ("--array=0-1", "--cpus-per-task=8", "--gres=gpu:2", "--mem=8G", "--time=90", "--signal=B:TERM@120")
    for option in (*wanted, "--partition=gpu", "--account=lab", "--constraint=a100", "--qos=long", "--requeue"):
        assert f"#SBATCH {option}\n" in script
    assert "CUDA_VISIBLE_DEVICES" not in script
    assert "--nproc-per-node 2" in script
    bare = batch_script([Path("/runs/a")], 1, Resources(gpus=0))
    assert "--gres" not in bare
    assert "--time" not in bare
    assert "export CUDA_VISIBLE_DEVICES=''" in bare
    assert "torch.distributed" not in bare


def test_processes_that_cannot_be_divided_among_the_nodes_are_refused() -> None:
    with pytest.raises(ConfigError, match="3 processes cannot be divided among 2 nodes"):
        batch_script([Path("/runs/a")], 3, Resources(nodes=2))


def test_the_script_becomes_the_run_itself_whatever_its_folder_is_called(tmp_path: Path) -> None:
    """`exec`: the process that SLURM signals is the run. The run here is a Python that says who it is."""
    folder = tmp_path / 'a run\'s $HOME "folder"'
    folder.mkdir()
    stand_in = tmp_path / "oelm.py"
    stand_in.write_text("import os, sys; print(os.getpid(), *sys.argv[1:], sep='|')")
    script = batch_script([tmp_path, folder], 1, Resources(gpus=0, setup=("echo prepared",)))
    assert sys.executable in script
    environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "1", "PYTHONPATH": str(tmp_path)}
    started = subprocess.Popen(["bash", "-c", script], env=environment, cwd=tmp_path)
    assert started.wait() == 0
    prepared, said = (folder / "console.log").read_text().splitlines()
    assert prepared == "prepared"
    assert said == f"{started.pid}|train|--config|{folder}/config.yaml|--resume"


def test_on_several_nodes_the_signal_reaches_this_run_and_none_of_its_siblings(tmp_path: Path) -> None:
    """The last task of an array has the array's own id as SLURM_JOB_ID. Here srun waits until scancel is called."""
    for name, lines in (
        ("srun", "touch began; while [ ! -e cancelled ]; do sleep 0.02; done"),
        ("scancel", 'echo "$@" >cancelled'),
    ):
        (tmp_path / name).write_text(f"#!/bin/bash\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {"SLURM_JOB_ID": "70", "SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "1"}
    environment = {**os.environ, **slurm, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    script = batch_script([tmp_path, tmp_path], 2, Resources(nodes=2))
    started = subprocess.Popen(["bash", "-c", script], env=environment, cwd=tmp_path)
    until((tmp_path / "began").exists, alive=lambda: started.poll() is None)
    started.send_signal(signal.SIGTERM)
    assert started.wait() == 0
    assert (tmp_path / "cancelled").read_text() == "--signal=TERM 70_1\n"
