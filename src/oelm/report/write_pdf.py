"""The page on paper: printed by the Chromium that is installed, which is started for it and ends with it."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from oelm.base.errors import ConfigError, StorageError
from oelm.base.files import write_bytes

VARIABLE = "CHROMIUM"
"""In the environment: the path of a browser to take instead of the usual ones."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
MAC_APPLICATIONS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
_OPTIONS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--no-pdf-header-footer",
)
_PATIENCE_SECONDS = 180


def find_chromium() -> str | None:
    """The path of a Chromium or one of its kin; None where there is none."""
    installed = (shutil.which(name) for name in (*NAMES, *MAC_APPLICATIONS))
    return os.environ.get(VARIABLE) or next((path for path in installed if path), None)


def require_chromium() -> str:
    """Its path, or an error that says what to install."""
    path = find_chromium()
    if path is None or shutil.which(path) is None:
        raise ConfigError(
            f"a PDF is printed by Chromium, and {f'{path} is no program' if path else 'there is none'}",
            f"install one (apt-get install chromium), or give the path of one in {VARIABLE}; --format html needs none",
        )
    return path


def write_pdf(page: str, output: Path) -> None:
    """Print a page, as `write_html` makes it, to a file that is there when it is whole."""
    chromium = require_chromium()
    with tempfile.TemporaryDirectory(prefix="oelm-pdf-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "page.html").write_text(page, encoding="utf-8")
        _print(chromium, folder)
        printed = folder / "page.pdf"
        content = printed.read_bytes() if printed.is_file() else b""
    if not (content.startswith(b"%PDF") and content.rstrip().endswith(b"%%EOF")):
        raise ConfigError(f"{chromium} printed no PDF", "try another one, or --format html")
    write_bytes(output, content)


def _print(chromium: str, folder: Path) -> None:
    """Chromium refuses to sandbox what root starts; the page holds nothing but our own script."""
    as_root = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
    files = (f"--user-data-dir={folder / 'profile'}", f"--print-to-pdf={folder / 'page.pdf'}")
    command = (chromium, *_OPTIONS, *as_root, *files, (folder / "page.html").as_uri())
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE_SECONDS
        )
    except OSError as error:
        raise ConfigError(f"cannot start {chromium}: {error.strerror}", f"correct {VARIABLE}") from error
    except subprocess.TimeoutExpired as error:
        problem = f"{chromium} did not print the page within {_PATIENCE_SECONDS} seconds"
        raise StorageError(problem, "try again, or --format html") from error
    if done.returncode:
        said = next(reversed(done.stderr.split("\n")[:-1]), "without a word")
        raise ConfigError(f"{chromium} failed ({done.returncode}): {said}", "try another one, or --format html")
