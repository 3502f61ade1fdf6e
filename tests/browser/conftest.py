"""One Chromium for all tests of a process. Where there is none, they are skipped and say so."""

from collections.abc import Iterator

import pytest

from oelm.report.write_pdf import find_chromium

from .chromium import Chromium, started


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    path = find_chromium()
    if path is None:
        pytest.skip("NO CHROMIUM: the page is not tested in a browser. Fix: apt-get install chromium, or set CHROMIUM")
    with started(path, tmp_path_factory.mktemp("profile")) as browser:
        yield browser
