"""`oelm report --serve`: the page of runs under way, with the status of their studies, until Ctrl-C."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from oelm.base.errors import CheckpointError
from oelm.report.live_page import LivePage, LiveRequest, Queue, QueuedRun
from oelm.report.page_server import PageServer


def serve_page(asked: LiveRequest, port: int, console: Console) -> None:
    """Answer this machine's browsers until Ctrl-C."""
    for path in asked.paths:
        if not path.exists():
            raise CheckpointError(f"there is no file or folder {path}", "give run folders, or the folder of a study")
    with PageServer(LivePage(asked, lambda: study_queues(asked.paths)), port) as server:
        console.print(f"live page: {server.url} (Ctrl-C ends it)", highlight=False, soft_wrap=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            console.print("the page is served no more; the runs go on", highlight=False)


def study_queues(paths: Sequence[Path]) -> list[Queue]:
    """What `oelm experiment status` knows of those folders that are a study's."""
    from oelm.experiments.study_folder import study_status
    from oelm.experiments.tables import is_silent, progress

    found = [status for path in paths if (status := study_status(path)) is not None]
    return [
        Queue(
            study,
            rows[0].run.measure,
            [QueuedRun(row.run.name, row.status.value, is_silent(row), progress(row), row.reason) for row in rows],
        )
        for study, rows in found
    ]
