"""What somebody else chose, through the command line: refused in one line, within seconds, and nothing is damaged."""

import json
import os
import pickle
import shutil
import sys
import time
from pathlib import Path

import pytest
import zstandard

from fuzz.called import as_argument, called, refused
from oelm.cli.main import main
from oelm.config.yaml_file import write_yaml
from oelm.train.folder import RunFolder
from train.processes import running, started, started_anew, until
from train.toys import flags, last_weights, tiny_config, tokens, trained


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    trained(tiny_config(steps=4, validate_every=2), folder)
    return folder


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["report", "bench"])
def test_an_output_replaces_no_pipe_and_no_link(finished: Path, tmp_path: Path, verb: str) -> None:
    os.mkfifo(tmp_path / "pipe.html")
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link.html").symlink_to(tmp_path / "precious")
    for name in ("pipe.html", "link.html"):
        output = tmp_path / name
        command = ["report", finished, "-o", output] if verb == "report" else ["bench", "--out", output]
        assert "is not replaced" in refused(*command)
    assert (tmp_path / "pipe.html").is_fifo()
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("name", ["events.jsonl", "train.log", "run.lock", "state.json", "record.json"])
def test_links_in_a_run_folder_are_not_followed(copy: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").write_text("precious")
    (copy / "record.json").unlink()
    shutil.rmtree(copy / "checkpoint")
    (copy / name).unlink(missing_ok=True)
    (copy / name).symlink_to(tmp_path / "precious")
    ended = called(*flags(steps=4, validate_every=2, out_dir=copy), "--resume")
    assert ended.code == 2, ended
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    """RLE blocks: 4 bytes each become 128 KiB."""
    frame = zstandard.compress(bytes(200_000_000), level=1)
    (tmp_path / "bomb.txt.zst").write_bytes(frame)
    assert len(frame) < 50_000
    began = time.monotonic()
    said = refused("prepare", tmp_path / "bomb.txt.zst", "--tokenizer=bytes", "--out", tmp_path / "out")
    assert "1,000-fold" in said
    assert time.monotonic() - began < 20


def train_into_nothing(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    os.dup2(write, 1)
    sys.argv = ["oelm", *arguments]
    main()


def test_a_reader_that_goes_away_does_not_end_a_run(tmp_path: Path) -> None:
    """`oelm train ... | head -1`."""
    arguments = flags(steps=40, validate_every=10, out_dir=tmp_path / "run")
    ended = running(train_into_nothing, arguments).ended()
    assert (ended.code, ended.err) == (0, "")
    assert RunFolder(tmp_path / "run").finished


# --- tracebacks -----------------------------------------------------------------------------------------------------


COMMAND_LINES = {
    "a path that is too long": (["train", "--data", "x" * 300], "too long"),
    "a path that is too long to write": (["report", "RUN", "-o", "y" * 300 + ".html"], "too long"),
    "bytes that are no text": (["train", "--data", as_argument(b"a\xff")], "not UTF-8"),
    "no temperature": (["generate", "RUN", "--temperature", "nan"], "temperature"),
    "a temperature that overflows": (["generate", "RUN", "--temperature", "1e-300"], "temperature"),
    "no penalty": (["generate", "RUN", "--repetition-penalty", "nan"], "penalty"),
    "a device that computes nothing": (["generate", "RUN", "--device", "meta"], "device 'meta'"),
    "a vocabulary beyond reason": (["prepare", "stories", "--vocab-size", "1000000007"], "vocabulary"),
    "a width beyond 63 bits": (["inspect", "--width", str(2**64)], "width"),
    "steps beyond 63 bits": (["train", "--data", "TOKENS", "--steps", str(2**63)], "steps"),
    "a batch beyond memory": (["train", "--data", "TOKENS", "--batch-size", "1000000000"], "GB of memory"),
    "a model beyond memory": (["train", "--data", "TOKENS", "--width", "1000000", "--heads", "1"], "GB of memory"),
    "a vocabulary beyond memory": (["train", "--data", "TOKENS", "--vocab-size", "1000000007"], "GB of memory"),
    "a batch that cannot be counted": (
        ["train", "--data", "TOKENS", "--batch-size", "2000000000", "--accumulate", "2000000000"],
        "too many",
    ),
}


@pytest.mark.parametrize("mistake", COMMAND_LINES)
def test_command_lines(finished: Path, tmp_path: Path, mistake: str) -> None:
    words, said = COMMAND_LINES[mistake]
    places = {"RUN": str(finished), "TOKENS": str(tokens())}
    began = time.monotonic()
    assert said in refused(*(places.get(word, word) for word in words), cwd=tmp_path)
    assert time.monotonic() - began < 20


def test_brackets_in_names_are_no_markup(copy: Path, tmp_path: Path) -> None:
    strange = tmp_path / "[" / "x] [bold]"
    strange.mkdir(parents=True)
    ended = called("report", copy, "-o", strange / "page.html")
    assert (ended.code, ended.err) == (0, "")
    assert "[/x] [bold]/page.html" in ended.out
    ended = called(*flags(steps=2, out_dir=strange / "run"))
    assert ended.code == 0, ended
    assert "[/x] [bold]/run" in ended.out


@pytest.mark.parametrize("content", [b"\xff\xff", b"[" * 50_000, b"null", b'{"state": "running"}'])
def test_a_damaged_state_file_is_noted_and_the_run_goes_on(copy: Path, finished: Path, content: bytes) -> None:
    (copy / "record.json").unlink()
    (copy / "state.json").write_bytes(content)
    ended = called(*flags(steps=4, validate_every=2, out_dir=copy), "--resume")
    assert ended.code == 0, ended
    assert "state.json" in (copy / "train.log").read_text()
    assert last_weights(copy) == last_weights(finished)


@pytest.mark.parametrize("content", [b"\xff\xff", b"[" * 50_000, b"a: !!set {x}", b'a: "\\e[2J"', b"a: !!python/x 1"])
def test_configs_that_are_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.yaml").write_bytes(content)
    assert "config.yaml" in refused("train", "--config", tmp_path / "config.yaml")


def test_a_date_in_a_study_is_text(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("title: 2020-01-01\narms: [2021-02-03]\n")
    assert "study.yaml, line" in refused("experiment", "plan", tmp_path / "study.yaml")


def test_a_damaged_request_is_named(tmp_path: Path) -> None:
    shutil.copytree(tokens(), tmp_path / "tokens")
    (tmp_path / "tokens" / "request.json").write_bytes(b"\xff")
    (tmp_path / "toy.txt").write_text("x")
    assert "request.json" in refused("prepare", tmp_path / "toy.txt", "--out", tmp_path / "tokens")


def test_a_damaged_tokenizer_is_named_by_export(copy: Path, tmp_path: Path) -> None:
    (copy / "tokenizer.json").write_text("{}")
    (copy / "manifest.json").unlink()
    assert "tokenizer.json" in refused("export", copy, "--out", tmp_path / "out")


@pytest.mark.slow
def test_an_export_that_does_not_fit_leaves_nothing_half_done(finished: Path, tmp_path: Path) -> None:
    """RLIMIT_FSIZE: the weights do not fit, everything smaller does."""
    export = ["export", str(finished), "--out", str(tmp_path / "exported")]
    ended = started(export, limit_bytes=30_000).ended()
    *_, last = ended.err.strip().splitlines()  # after transformers' own progress bar
    assert ended.code == 2, ended
    assert "Traceback" not in ended.err
    assert last.startswith("error: cannot write")
    assert "File too large" in last
    assert not (tmp_path / "exported").exists()
    assert started(export).ended().code == 0


def test_tokens_beyond_the_vocabulary(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    shutil.copytree(tokens(), folder)
    values = json.loads((folder / "manifest.json").read_text())
    values["tokenizer"]["vocabulary"] = 100
    (folder / "manifest.json").write_text(json.dumps(values))
    assert "tokenizer has only 100" in refused(*flags(data=folder, out_dir=tmp_path / "run"))


ANSWERS_WITH_A_TRACEBACK = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
except BaseException:
    raise RuntimeError("half imported")
"""


def test_ctrl_c_while_something_is_imported_is_quiet(tmp_path: Path) -> None:
    """Some packages answer it with an error of their own."""
    (tmp_path / "typer.py").write_text(ANSWERS_WITH_A_TRACEBACK)
    places = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    process = started_anew("oelm", "methods", PYTHONPATH=places)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, out, err) == (130, "", "")


# --- one bad record -------------------------------------------------------------------------------------------------


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    """Runs of two seeds, of which one will be damaged."""
    trained(tiny_config(steps=4, validate_every=2, seed=1), tmp_path / "runs" / "two")
    shutil.copytree(finished, tmp_path / "runs" / "one")
    return tmp_path / "runs"


def test_a_report_names_a_damaged_record_and_goes_on(study: Path) -> None:
    for content in (b"\xff", b"{}", b"[" * 50_000):
        (study / "one" / "record.json").write_bytes(content)
        ended = called("compare", study)
        assert ended.code == 0, ended
        said = " ".join(ended.out.split())
        assert "Left out, as their records are damaged" in said
        assert "record.json" in said
    assert "record.json" in refused("compare", study / "one")
    (study / "two" / "record.json").write_bytes(b"{}")
    assert "record.json" in refused("compare", study)


# --- hangs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--steps", "2000000000"],
        ["--steps", "2000000000", "--method", "oelm+thaw=0.2..0.8"],
        ["--width", "1000000", "--heads", "7"],
        ["--width", "1048576", "--heads", "1", "--layers", "100"],
        ["--vocab-size", "2000000000"],
    ],
)
def test_inspecting_the_impossible_takes_no_time(words: list[str]) -> None:
    began = time.monotonic()
    assert called("inspect", "--size", "tiny", *words).code in (0, 2)
    assert time.monotonic() - began < 20


def test_a_study_of_too_many_runs_is_refused_at_once(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    assert called("experiment", "new", study).code == 0
    began = time.monotonic()
    said = refused("experiment", "plan", study, "--set", f"seeds={list(range(5_000, 25_000))}")
    assert "at most 5,000" in said
    assert time.monotonic() - began < 20


def test_a_config_file_is_refused_like_flags(tmp_path: Path) -> None:
    config = tiny_config()
    huge = config.model_copy(update={"model": config.model.model_copy(update={"width": 10**30})})
    write_yaml(huge, tmp_path / "config.yaml")
    assert "width" in refused("train", "--config", tmp_path / "config.yaml")


# --- what records say -----------------------------------------------------------------------------------------------


def with_name(run: Path, name: str) -> None:
    """The record of a run whose method has another name, sealed again as its author would."""
    values = json.loads((run / "record.json").read_text())
    values["config"]["method"]["name"] = name
    values["digest"] = None
    (run / "record.json").write_text(json.dumps(values))


@pytest.mark.parametrize(
    "name", ["oelm\x1b[2J", "oelm\n| a | b |", "oelm" * 1_000_000], ids=["escape", "lines", "long"]
)
def test_a_name_cannot_break_out_of_its_line(copy: Path, tmp_path: Path, name: str) -> None:
    with_name(copy, name)
    began = time.monotonic()
    said = refused("report", copy, "-o", tmp_path / "page.html")
    assert "record.json" in said
    assert len(said) < 3000
    assert time.monotonic() - began < 20


def test_markup_of_other_languages_is_text(copy: Path, tmp_path: Path) -> None:
    with_name(copy, "oelm`<b>[/x]|")
    for name in ("page.html", "page.md"):
        assert called("report", copy, "-o", tmp_path / name).code == 0
    assert "<b>[/x]" not in (tmp_path / "page.html").read_text()
    assert "`oelm'<b>[/x]¦`" in (tmp_path / "page.md").read_text()


def test_records_and_pages_name_no_place(finished: Path, tmp_path: Path) -> None:
    assert called("report", finished, "-o", tmp_path / "page.html").code == 0
    for file in (finished / "record.json", tmp_path / "page.html"):
        assert str(tokens()) not in file.read_text()
    assert RunFolder(finished).record().config.data.folder == ".../tokens"
    assert str(tokens()) in (finished / "config.yaml").read_text()


def test_a_run_on_relative_data_goes_on_from_anywhere(tmp_path: Path) -> None:
    shutil.copytree(tokens(), tmp_path / "tokens")
    settings = {"steps": 4, "validate_every": 2, "data": "tokens"}
    assert called(*flags(**settings, out_dir="runs/a/b"), cwd=tmp_path).code == 0
    run = tmp_path / "runs" / "a" / "b"
    (run / "record.json").unlink()
    shutil.rmtree(run / "checkpoint" / "step-00000004")
    (tmp_path / "elsewhere").mkdir()
    ended = called("train", "--resume", "--out-dir", "../runs/a/b", cwd=tmp_path / "elsewhere")
    assert ended.code == 0, ended
    assert RunFolder(run).record().config.data.folder == "tokens"


def test_files_have_the_permissions_of_the_umask(finished: Path) -> None:
    modes = {path.stat().st_mode & 0o777 for path in finished.rglob("*") if path.is_file()}
    assert len(modes) == 1, {path.name: oct(path.stat().st_mode) for path in finished.rglob("*") if path.is_file()}


def test_a_deleted_lock_admits_no_second_trainer(tmp_path: Path) -> None:
    arguments = flags(steps=100_000, out_dir=tmp_path / "run")
    first = started(arguments)
    try:
        until(lambda: RunFolder(tmp_path / "run").state_file.exists(), alive=first.process.is_alive)
        (tmp_path / "run" / "run.lock").unlink()
        assert "another process is training" in refused(*arguments, "--resume")
    finally:
        first.killed()


# --- models of others -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "model"
    assert called("export", finished, "--out", folder).code == 0
    return folder


def test_code_that_a_model_brings_along_is_not_run(exported: Path, tmp_path: Path) -> None:
    model, trace = tmp_path / "model", tmp_path / "trace"
    shutil.copytree(exported, model)
    (model / "evil.py").write_text(f"from pathlib import Path\nPath({str(trace)!r}).touch()\nclass Evil: pass\n")
    values = json.loads((model / "config.json").read_text())
    values |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}}
    (model / "config.json").write_text(json.dumps(values))
    assert "config.json" in refused("generate", model, "--tokens=2")
    assert not trace.exists()


class Evil:
    """Unpickled, it would make a folder."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("trace",)


def test_pickled_weights_are_refused_in_one_line(exported: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(exported, model)
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": Evil()}))
    assert "weights" in refused("generate", model, "--tokens=2", cwd=tmp_path)
    assert not (tmp_path / "trace").exists()
