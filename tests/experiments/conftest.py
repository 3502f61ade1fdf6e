from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A test has the machine's CPU slots and GPUs for itself: it waits for no study, and no study for it."""
    folder = tmp_path / "places"
    monkeypatch.setenv("OELM_PLACES", str(folder))
    return folder
