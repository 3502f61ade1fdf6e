"""Where prepared data and runs live when the person does not say."""

import shlex
from pathlib import Path

from oelm.base.errors import DataError

TOKENS = Path("tokens")
RUNS = Path("runs")


def data_folder(text: str) -> Path:
    """A folder of token files by its path, by a file in it (the original's --data_path), or by its name in tokens/.

    In a name only letters and digits count: the original's `wikitext103` is `tokens/wikitext-103`, or that corpus.
    """
    from oelm.data.hub import HubCorpus
    from oelm.data.tokens import MANIFEST_FILE

    path = Path(text)
    if path.is_file() and (path.parent / MANIFEST_FILE).is_file():
        return path.parent
    if path.is_file():
        raise DataError(f"{path} is no folder of token files", f"make one: {shlex.join(['oelm', 'prepare', text])}")
    if path.is_dir():
        return path
    prepared = sorted(TOKENS.iterdir()) if TOKENS.is_dir() else []
    corpora = [Path(corpus) for corpus in HubCorpus]  # one that is not here is missed under the name that prepares it
    return next((folder for folder in (*prepared, *corpora) if _plain(folder.name) == _plain(text)), path)


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
