"""The studies that come with oelm: the repository's `experiments/`, in a wheel `oelm/shipped/experiments`."""

from importlib.resources import files
from pathlib import Path

from oelm.base.errors import ConfigError
from oelm.base.files import write_text

_PACKAGE = Path(str(files("oelm")))
_WHEEL, _CHECKOUT = _PACKAGE / "shipped" / "experiments", _PACKAGE.parents[1] / "experiments"


def shipped_studies() -> dict[str, Path]:
    """Their files by name: `cpu/quick`."""
    folder = _WHEEL if _WHEEL.is_dir() else _CHECKOUT
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.yaml"))}


def study_path(given: Path) -> Path:
    """A file or folder as it was given, or the shipped study of that name (`cpu/quick`)."""
    if given.exists():
        return given
    return shipped_studies().get(given.with_suffix("").as_posix().removeprefix("experiments/"), given)


def shipped_file(given: str) -> str:
    """A file under `experiments/` as it was given if it is here, else the one that comes with oelm."""
    below = given.removeprefix("experiments/")
    shipped = (_WHEEL if _WHEEL.is_dir() else _CHECKOUT) / below
    return str(shipped) if below != given and not Path(given).exists() and shipped.exists() else given


def write_new_study(path: Path) -> None:
    """A commented study to start from; nothing is overwritten."""
    if path.exists():
        raise ConfigError(f"{path} exists already", "give another name")
    write_text(path, (Path(__file__).parent / "new_study.yaml").read_text(encoding="utf-8"))
