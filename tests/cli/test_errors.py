"""What a person gets wrong, through the command line: one line that names the fix, exit code 2, nothing lost."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from oelm.config.record import RunState
from oelm.config.yaml_file import write_yaml
from oelm.train.folder import RunFolder
from train.processes import Ended, parallel, started, started_anew
from train.toys import TINY, flags, last_weights, timeless_events, tiny_config, tokens, toy_text, trained


def assert_one_line(ended: Ended, *words: str) -> None:
    assert ended.code == 2, ended
    assert ended.err.count("\n") == 1, ended.err
    assert ended.err.startswith("error: "), ended.err
    assert "Fix: " in ended.err
    for word in words:
        assert word in ended.err, ended.err


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "toy.txt"
    path.write_text(toy_text())
    return path


TRAIN_MISTAKES = {
    "missing data folder": ({"data": "nowhere/tokens"}, ["nowhere/tokens", "oelm prepare"]),
    "sequence longer than the data": ({"seq_len": 100_000}, ["100000", "--seq-len"]),
    "width not divisible by heads": ({"width": 18, "heads": 4}, ["18", "not divisible by 4 heads", "3 heads would do"]),
    "unknown style": ({"style": "mistral"}, ["mistral", "llama"]),
    "heads that cannot turn": ({"style": "llama", "width": 15, "heads": 3}, ["3 heads of width 5", "even"]),
    "thin heads that cannot turn": ({"style": "llama", "method": "oelm+thin=3"}, ["3 is odd", "+thin=4"]),
    "unknown method": ({"method": "olem"}, ["'olem'", "oelm-core", "oelm methods"]),
    "unknown modifier": ({"method": "oelm+shfit"}, ["+shfit", "+shift"]),
    "a layer that is not there": ({"method": "oelm+layers=99"}, ["99"]),
    "a plan that matches nothing": ({"method": "oelm+all-but-last=2"}, ["matches no weight", "oelm inspect"]),
    "no plan to vary": ({"method": "baseline+until=5"}, ["freezes nothing", "oelm"]),
    "ambiguous original name": ({"model_type": "oelm"}, ["ambiguous", "global-trained", "oelm-global", "oelm_v2"]),
    "unknown original name": ({"model_type": "oelm_v3"}, ["oelm_v3", "oelm_v2"]),
    "two names": ({"model_type": "baseline", "method": "oelm"}, ["--method", "--model-type"]),
    "impossible warm-up": ({"warmup_steps": 500}, ["500", "--warmup-steps"]),
    "negative rate": ({"lr": -1}, ["lr"]),
    "no such device": ({"device": "quantum"}, ["quantum", "--device cpu"]),
}


def test_a_text_is_no_folder_of_tokens(text: Path) -> None:
    assert_one_line(started(["train", "--data", str(text)]).ended(), "toy.txt", f"oelm prepare {text}")


def test_a_corpus_that_is_not_here_says_how_to_make_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(started(["train", "--data", "tinystories"]).ended(), "oelm prepare tinystories", "--tokenizer gpt2")


def test_a_folder_named_like_a_corpus_hides_it_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stories").mkdir()
    ended = started(["prepare", "stories", "--story-bytes", "30000", "--vocab-size", "300"]).ended()
    assert (ended.code, (tmp_path / "tokens/stories/manifest.json").is_file()) == (0, True), ended
    assert "held out for validation: " in " ".join(ended.out.split())


def test_a_folder_of_other_tokens_is_refused_in_the_words_of_the_command(text: Path, tmp_path: Path) -> None:
    command = ["prepare", str(text), "--out", str(tmp_path / "tokens"), "--vocab-size"]
    assert started([*command, "300"]).ended().code == 0
    assert_one_line(started([*command, "310"]).ended(), "other settings", "choose another --out", "--overwrite")


def test_what_is_printed_can_be_pasted(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my tokens"
    ended = started(["prepare", str(text), "--out", str(folder), "--vocab-size", "300"]).ended()
    assert f"oelm train --data '{folder}'" in "".join(ended.out.split("\n")), ended


def test_a_folder_of_runs_is_no_model(tmp_path: Path) -> None:
    trained(tiny_config("oelm"), tmp_path / "oelm-seed0")
    assert_one_line(started(["generate", str(tmp_path)]).ended(), "holds 1 runs", "oelm-seed0")


def test_a_study_that_was_never_started_is_not_stopped(tmp_path: Path) -> None:
    study = Path(__file__).resolve().parents[2] / "experiments/cpu/quick.yaml"
    ended = started(["experiment", "stop", str(study), "--out-dir", str(tmp_path / "nowhere")]).ended()
    assert (ended.code, (tmp_path / "nowhere").exists()) == (1, False)
    assert "nothing to stop" in ended.out


@pytest.mark.parametrize("mistake", TRAIN_MISTAKES)
def test_mistakes_in_training(tmp_path: Path, mistake: str) -> None:
    changes, words = TRAIN_MISTAKES[mistake]
    arguments = [
        word for word in flags(out_dir=tmp_path / "run") if not any(word.startswith(f"--{name}=") for name in changes)
    ]
    given = [f"--{name}={value}" for name, value in changes.items()]
    assert_one_line(started([*arguments, *given]).ended(), *words)
    assert not (tmp_path / "run").exists()


def test_no_data_and_no_config() -> None:
    assert_one_line(started(["train"]).ended(), "--data")
    assert_one_line(started(["train", "--config", "nowhere.yaml"]).ended(), "nowhere.yaml")


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, ["toy.txt"]), ("", ["no text in toy.txt"]), ("\n\n", ["no text in toy.txt"]), ("x", ["too short"])],
)
def test_missing_and_empty_text(tmp_path: Path, content: str | None, words: list[str]) -> None:
    if content is not None:
        (tmp_path / "toy.txt").write_text(content)
    ended = started(["prepare", str(tmp_path / "toy.txt"), "--tokenizer=bytes", f"--out={tmp_path / 'out'}"]).ended()
    assert ended.err.splitlines()[-1].startswith("error: ")
    assert_one_line(Ended(ended.code, "", ended.err.splitlines()[-1] + "\n"), *words)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_token_file_that_is_gone(tmp_path: Path) -> None:
    shutil.copytree(tokens(), tmp_path / "tokens")
    (tmp_path / "tokens" / "train.bin").unlink()
    assert_one_line(started(flags(data=tmp_path / "tokens", out_dir=tmp_path / "run")).ended(), "train.bin")


def test_settings_beside_a_config_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    write_yaml(tiny_config(), file)
    refused = started(["train", f"--config={file}", "--lr=0.5", "--model_type=baseline"]).ended()
    assert_one_line(refused, "--model-type, --lr would be ignored")
    refused = started(["train", "--resume", f"--out-dir={tmp_path}", "--seed=0"]).ended()
    assert_one_line(refused, "config.yaml", "--seed would be ignored")
    file.rename(tmp_path / "other.yaml")
    assert_one_line(started(["train", f"--config={tmp_path / 'other.yaml'}"]).ended(), "other.yaml", "--out-dir")
    assert_one_line(started(["train", "--resume", f"--out-dir={tmp_path}"]).ended(), "no data given")


FINETUNE_MISTAKES = {
    "two sources": (
        ["--model=bert", "--task=sst2", "--train=a.tsv", "--columns=a,b"],
        ["--columns, --train", "--task"],
    ),
    "a language without a task": (["--model=bert", "--language=de"], ["--language", "--task xnli"]),
    "settings of a GPT": (
        ["--model=bert", "--task=sst2", "--size=tiny", "--dropout=0.1"],
        ["--dropout, --size", "gpt"],
    ),
    "settings of a transformers model": (["--model=gpt", "--task=sst2", "--attention=cross"], ["--attention"]),
    "no source": (["--model=bert"], ["--task", "--train"]),
    "no table of numbers": (["--model=bert", "--task=regression"], ["no data given", "--train"]),
}


@pytest.mark.parametrize("mistake", FINETUNE_MISTAKES)
def test_mistakes_in_fine_tuning(mistake: str) -> None:
    arguments, words = FINETUNE_MISTAKES[mistake]
    assert_one_line(started(["finetune", *arguments]).ended(), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--layers=0"], ["oelm inspect: layers", "greater than or equal to 1"]),
        (["--size=tiny", "--method=oelm-qr"], ["oelm-qr needs a pre-trained model", "oelm"]),
        (["--size=tiny", "--method=oelm+layers=7"], ["layer 7"]),
    ],
)
def test_mistakes_in_inspecting(arguments: list[str], words: list[str]) -> None:
    ended = started(["inspect", *arguments]).ended()
    assert_one_line(ended, *words)
    assert ended.out == ""


def test_under_torchrun_the_leader_speaks_for_all() -> None:
    """torchrun ends the others as soon as one has ended."""
    leader, other = parallel(["train", "--data=nowhere"])
    assert_one_line(leader.ended(), "nowhere")
    other.signal(signal.SIGTERM)
    assert other.ended().err == ""


def test_what_only_another_process_knows_is_said() -> None:
    assert_one_line(started(["train", "--data=nowhere"], RANK="1").ended(), "nowhere")


COMMAND = {"method": "oelm", "steps": 30, "save_every": 10, "validate_every": 10}


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straight") / "run"
    trained(tiny_config(**COMMAND), folder)  # type: ignore[arg-type]
    return folder


@pytest.fixture
def unfinished(tmp_path: Path, straight: Path) -> Path:
    """A run as SIGKILL leaves it after its second checkpoint."""
    folder = tmp_path / "unfinished"
    shutil.copytree(straight, folder)
    shutil.rmtree(folder / "checkpoint" / "step-00000030")
    (folder / "record.json").unlink()
    return folder


def assert_goes_on(unfinished: Path, straight: Path) -> None:
    assert started([*flags(**COMMAND, out_dir=unfinished), "--resume"]).ended().code == 0
    assert last_weights(unfinished) == last_weights(straight)
    assert timeless_events(unfinished) == timeless_events(straight)
    assert not list(unfinished.rglob(".partial-*"))


def test_a_folder_that_holds_something_else(tmp_path: Path, straight: Path, unfinished: Path) -> None:
    shutil.copytree(tokens(), tmp_path / "tokens")
    manifest = tmp_path / "tokens" / "manifest.json"
    digest = tiny_config().data.digest
    text = manifest.read_text()
    sha256 = text.split('"sha256": "')[1][:64]
    manifest.write_text(text.replace(sha256, "0" * 64))

    def refused(*words: str, **changes: object) -> None:
        arguments = {**COMMAND, "out_dir": unfinished, **changes}
        assert_one_line(started([*flags(**arguments), "--resume"]).ended(), "--out-dir", *words)

    refused("optim.lr is 0.01 there and 0.5 here", lr=0.5)
    refused("data.digest", digest, data=tmp_path / "tokens")
    refused("finished run", out_dir=straight)
    assert_one_line(started(flags(**COMMAND, out_dir=unfinished)).ended(), "--resume")
    shutil.copytree(unfinished, tmp_path / "moved")
    config = tmp_path / "moved" / "config.yaml"
    config.write_text(config.read_text().replace(digest, "f" * 16))
    assert_one_line(started(["train", "--config", str(config), "--resume"]).ended(), "has changed since")
    assert_goes_on(unfinished, straight)


def test_a_folder_knows_how_to_go_on(unfinished: Path, straight: Path) -> None:
    assert started(["train", "--resume", f"--out-dir={unfinished}"]).ended().code == 0
    assert last_weights(unfinished) == last_weights(straight)


def test_a_file_that_may_not_grow(unfinished: Path, straight: Path) -> None:
    """RLIMIT_FSIZE: the weights no longer fit, everything smaller does."""
    ended = started([*flags(**COMMAND, out_dir=unfinished), "--resume"], limit_bytes=30_000).ended()
    assert_one_line(ended, "cannot write", "checkpoint", "00000030", "File too large", "free space")
    state = RunFolder(unfinished).state()
    assert state is not None
    assert state.state is RunState.FAILED
    assert sorted(path.name for path in (unfinished / "checkpoint").glob("step-*")) == ["step-00000020"]
    assert_goes_on(unfinished, straight)


def mount(folder: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return shutil.which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 800 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not mount(folder, "size=800k"):
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk(small_disk: Path, straight: Path, text: Path) -> None:
    command = [*flags(**COMMAND, out_dir=small_disk / "run"), "--resume"]
    (small_disk / "ballast").write_bytes(bytes(600_000))
    ended = started(command).ended()
    assert_one_line(ended, "cannot write", "No space left on device")
    assert not list(small_disk.rglob(".partial-*"))
    prepare = ["prepare", str(text), "--tokenizer=bytes", f"--out={small_disk / 'tokens'}"]
    with (small_disk / "ballast").open("ab") as ballast:
        ballast.write(bytes(max(0, shutil.disk_usage(small_disk).free - 20_000)))
    ended = started(prepare).ended()
    assert_one_line(Ended(ended.code, "", ended.err.splitlines()[-1] + "\n"), "cannot write", "No space left on device")
    assert not (small_disk / "tokens" / "manifest.json").exists()
    (small_disk / "ballast").unlink()
    assert started(prepare).ended().code == 0
    shutil.rmtree(small_disk / "tokens")
    assert started(command).ended().code == 0
    assert last_weights(small_disk / "run") == last_weights(straight)
    assert timeless_events(small_disk / "run") == timeless_events(straight)


def test_a_read_only_target(small_disk: Path, text: Path) -> None:
    assert mount(small_disk, "remount,ro")
    assert_one_line(started(flags(out_dir=small_disk / "run")).ended(), "Read-only file system", "writable folder")
    ended = started(["prepare", str(text), "--tokenizer=bytes", f"--out={small_disk / 'tokens'}"]).ended()
    assert_one_line(ended, "Read-only file system", "writable folder")


def test_the_originals_flags_are_accepted(tmp_path: Path) -> None:
    sizes = [
        f"--num_layers={TINY['layers']}",
        f"--d_model={TINY['width']}",
        f"--num_heads={TINY['heads']}",
        "--d_ff=32",
    ]
    times = ["--max_steps=2", "--max_lr=0.01", "--batch_size=2", "--seq_len=16", "--val_interval=1", "--log_interval=1"]
    names = [
        "--model_type=oelm_v2",
        f"--dataset={tokens()}",
        f"--out_dir={tmp_path / 'run'}",
        "--validation_sequences=2",
        "--num_workers=4",
    ]
    ended = started(["train", *names, *sizes, *times, "--device=cpu"]).ended()
    assert (ended.code, ended.err) == (0, "")
    record = RunFolder(tmp_path / "run").record()
    assert record.method == "oelm"
    assert (record.config.train.steps, record.config.optim.lr, record.config.model.width) == (2, 0.01, 16)


@pytest.mark.slow
def test_one_line_from_the_command_itself(tmp_path: Path) -> None:
    """The same through `python -m oelm`, started from nothing."""
    process = started_anew("oelm", "train", "--data=nowhere", "--model_type=oelm_v2", cwd=tmp_path)
    out, err = process.communicate()
    assert_one_line(Ended(process.returncode, out, err), "nowhere", "oelm prepare")
    assert list(tmp_path.iterdir()) == []
