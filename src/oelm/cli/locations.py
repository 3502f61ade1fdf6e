"""Where prepared data and runs live when the person does not say."""

from pathlib import Path

TOKENS = Path("tokens")
RUNS = Path("runs")


def data_folder(text: str) -> Path:
    """A folder of token files by its path, by a file in it (the original's --data_path), or by its name in tokens/."""
    path = Path(text)
    if path.is_file():
        return path.parent
    return path if path.is_dir() or not (TOKENS / text).is_dir() else TOKENS / text
