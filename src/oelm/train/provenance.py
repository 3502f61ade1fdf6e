"""Where a run's numbers come from: code, versions, device, threads. Nothing that names a person or a machine."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from oelm import __version__
from oelm.base.runtime import Runtime
from oelm.config.record import Environment
from oelm.config.run import RunConfig

# Never the whole environment: it holds tokens and keys.
_ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "WORLD_SIZE",
    "NCCL_DEBUG",
    "HF_HUB_OFFLINE",
    "CUBLAS_WORKSPACE_CONFIG",
    "SLURM_JOB_ID",
)
_PACKAGES = ("torch", "numpy", "pydantic", "safetensors", "tokenizers", "transformers", "datasets")


def environment(runtime: Runtime) -> Environment:
    """What goes into the record."""
    commit, dirty = git_state()
    return Environment(
        oelm=__version__,
        python=platform.python_version(),
        torch=torch.__version__,
        device=runtime.device_name,
        threads=torch.get_num_threads(),
        git_commit=commit,
        git_dirty=dirty,
        preloaded=_preloaded(),
    )


def run_manifest(config: RunConfig, data: dict[str, Any], runtime: Runtime) -> dict[str, Any]:
    """`manifest.json` of a run folder: the environment, package versions, data hashes and seed."""
    return {
        **environment(runtime).model_dump(),
        "fingerprint": config.fingerprint,
        "seed": config.seed,
        "packages": package_versions(),
        "environment": {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        "system": f"{platform.system()} {platform.machine()}",
        "cpu_count": os.cpu_count(),
        "data": data,
    }


def package_versions() -> dict[str, str | None]:
    """Of the packages that results depend on; None of one that is not installed."""
    return {name: _version(name) for name in _PACKAGES}


def git_state() -> tuple[str | None, bool | None]:
    """The commit of the code that runs, and whether it was changed since; (None, None) outside a checkout."""
    commit = _git("rev-parse", "HEAD")
    return (commit, bool(_git("status", "--porcelain", "--untracked-files=no"))) if commit else (None, None)


def _preloaded() -> str:
    """The file names in LD_PRELOAD; its folders may name a person."""
    return " ".join(Path(library).name for library in os.environ.get("LD_PRELOAD", "").replace(":", " ").split())


def _git(*arguments: str) -> str | None:
    source = Path(__file__).resolve().parents[3]
    if not (source / ".git").exists():  # an installed package inside somebody else's checkout is not this code
        return None
    try:
        return subprocess.run(
            ["git", "-C", str(source), *arguments], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
