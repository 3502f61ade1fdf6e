"""Where prepared data and runs live when the person does not say."""

from pathlib import Path

TOKENS = Path("tokens")
RUNS = Path("runs")


def data_folder(text: str) -> Path:
    """A folder of token files by its path, by a file in it (the original's --data_path), or by its name in tokens/.

    In a name only letters and digits count: the original's `wikitext103` is `tokens/wikitext-103`.
    """
    path = Path(text)
    if path.is_file():
        return path.parent
    if path.is_dir() or not TOKENS.is_dir():
        return path
    return next((folder for folder in sorted(TOKENS.iterdir()) if _plain(folder.name) == _plain(text)), path)


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
