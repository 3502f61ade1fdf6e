import os

# Before torch is imported anywhere: tests are small, and several processes may share the machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from oelm.base.runtime import avoid_unusable_tiles

settings.register_profile("reproducible", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("reproducible")


@pytest.fixture(autouse=True, scope="session")
def _own_places(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests never wait for the CPU slots of a study that runs on this machine."""
    os.environ["OELM_PLACES"] = str(tmp_path_factory.mktemp("places"))


@pytest.fixture(autouse=True, scope="session")
def _no_unusable_tiles() -> None:
    """Tests that compute in bf16 without a run do as runs do."""
    avoid_unusable_tiles()
