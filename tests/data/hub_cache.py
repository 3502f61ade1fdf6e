"""The cache of `datasets` as it lies on the disk after a download."""

from pathlib import Path

import pyarrow as pa

from oelm.data.hub import HUB_DATASETS, HubCorpus


def cache_split(
    folder: Path, corpus: HubCorpus, rows: list[str], split: str, parts: int = 1, config: str | None = None
) -> None:
    """Write one split, in several files if asked to, and under another configuration's name."""
    dataset = HUB_DATASETS[corpus]
    place = folder / dataset.cache_folder / (config or dataset.config or "default") / "0.0.0" / dataset.revision
    place.mkdir(parents=True, exist_ok=True)
    for part in range(parts):
        numbered = f"-{part:05}-of-{parts:05}" if parts > 1 else ""
        share = rows[part * len(rows) // parts : (part + 1) * len(rows) // parts]
        table = pa.table({"text": pa.array(share, pa.string())})
        with (
            pa.OSFile(str(place / f"x-{split}{numbered}.arrow"), "wb") as file,
            pa.ipc.new_stream(file, table.schema) as stream,
        ):
            stream.write_table(table, max_chunksize=2)
