import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oelm.base.errors import DataError, OelmError
from oelm.base.files import make_folder
from oelm.base.locks import FileLock
from oelm.cli.finetune import _default_folder, _tables, _token_folder
from oelm.cli.main import command_line
from oelm.data.tokens import MANIFEST_FILE
from oelm.train.folder import RunFolder
from train.processes import until
from train.toys import tiny_config, tokens


@pytest.mark.parametrize(("task", "measure"), [([], "macro F1"), (["--task=regression"], "Pearson correlation")])
def test_labelled_tables_to_a_result_in_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], task: list[str], measure: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "praise").mkdir()
    for name, count in (("train", 40), ("dev", 10)):
        rows = [f"the cat is {('bad', 'good')[index % 2]}\t{index % 2}" for index in range(count)]
        (tmp_path / "praise" / f"{name}.tsv").write_text("\n".join(["text\tlabel", *rows]))
    tables = ["--train=praise/train.tsv", "--evaluate=praise/dev.tsv", "--max-length=16", "--epochs=0.5"]
    model = ["--model=gpt", "--size=tiny", f"--tokenizer={tokens() / 'tokenizer.json'}", "--no-tensorboard"]
    arguments = ["finetune", *task, *tables, *model, "--batch-size=4", "--seed=1", "--device=cpu"]
    command_line(arguments)(args=arguments, standalone_mode=False)
    assert RunFolder(Path("runs/praise-train/gpt/oelm-seed1")).finished
    said = " ".join(capsys.readouterr().out.split())
    assert "dev, last (step" in said
    assert "dev, best by validation loss (step" in said
    assert measure in said


def test_under_torchrun_one_process_prepares_the_text_and_the_others_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("oelm.data.prepare._BUSY_SECONDS", 0.05)
    Path("my.txt").write_text("\n<|endoftext|>\n".join(f"the cat number {i} sat" for i in range(200)))
    Path("model").mkdir()
    Path("model/config.json").write_text('{"model_type": "gpt2"}')
    shutil.copy(tokens() / "tokenizer.json", "model")
    said = ""

    def waits() -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return "another process is preparing it; waiting" in " ".join(said.split())

    first = FileLock.take(make_folder(Path("tokens/my-model")))
    assert first is not None
    with ThreadPoolExecutor() as threads:
        second = threads.submit(_token_folder, "my.txt", "model", None, 16)
        until(waits, alive=lambda: not second.done())
        first.release()
        assert (second.result() / MANIFEST_FILE).is_file()


@pytest.mark.parametrize(
    ("model", "length", "refusal"),
    [
        ("gpt2", 33, r"texts of 33 tokens.*\(32\)"),
        ("t5", 16, "no causal language model"),
        ("gpt2/config.json", 16, "config without weights"),
        ("run", 16, "oelm export RUN"),
        ("gpt", 16, "from scratch: oelm train"),
    ],
)
def test_a_model_that_cannot_read_the_text_is_refused_before_it_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, length: int, refusal: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.txt").write_text("\n<|endoftext|>\n".join(f"the cat number {i} sat" for i in range(200)))
    for name, config in {"gpt2": '{"model_type": "gpt2", "n_positions": 32}', "t5": '{"model_type": "t5"}'}.items():
        make_folder(Path(name))
        Path(name, "config.json").write_text(config)
        shutil.copy(tokens() / "tokenizer.json", name)
    make_folder(Path("run"))
    RunFolder(Path("run")).config_file.write_text("title: a run of ours")
    shutil.copy(tokens() / "tokenizer.json", "run")
    with pytest.raises(OelmError, match=refusal):
        _token_folder("my.txt", model, None, length)
    assert not Path("tokens").exists()


def test_a_text_that_has_changed_is_refused_in_words_for_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_folder(Path("model"))
    Path("model/config.json").write_text('{"model_type": "gpt2"}')
    shutil.copy(tokens() / "tokenizer.json", "model")
    for count in (200, 201):
        Path("my.txt").write_text("\n<|endoftext|>\n".join(f"the cat number {i} sat" for i in range(count)))
        if count == 200:
            assert (_token_folder("my.txt", "model", None, 16) / MANIFEST_FILE).is_file()
    with pytest.raises(DataError, match=r"delete it.*oelm prepare my\.txt --tokenizer-file model/tokenizer\.json"):
        _token_folder("my.txt", "model", None, 16)


def test_tables_go_by_their_folder_and_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(make_folder(tmp_path / "w"))
    names = [_tables(train, ["dev.tsv"], None)["name"] for train in ("train.tsv", "other.tsv.xz", "../v/train.tsv")]
    assert names == ["w-train", "w-other", "v-train"]


def test_a_model_given_as_its_config_goes_by_its_folder() -> None:
    named = [
        _default_folder(tiny_config("oelm", seed=3), model, None).parts[-2:]
        for model in ("models/t5-letters/config.json", "models/t5-letters", "google-t5/t5-small")
    ]
    assert named == [("t5-letters", "oelm-seed3"), ("t5-letters", "oelm-seed3"), ("t5-small", "oelm-seed3")]
