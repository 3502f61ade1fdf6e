import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oelm.base.files import make_folder
from oelm.base.locks import FileLock
from oelm.cli.finetune import _token_folder
from oelm.cli.main import command_line
from oelm.data.tokens import MANIFEST_FILE
from oelm.train.folder import RunFolder
from train.processes import until
from train.toys import tokens


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
    assert RunFolder(Path("runs/praise/gpt/oelm-seed1")).finished
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
    shutil.copy(tokens() / "tokenizer.json", "model")
    said = ""

    def waits() -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return "another process is preparing it; waiting" in " ".join(said.split())

    first = FileLock.take(make_folder(Path("tokens/my-model")))
    assert first is not None
    with ThreadPoolExecutor() as threads:
        second = threads.submit(_token_folder, "my.txt", "model", None)
        until(waits, alive=lambda: not second.done())
        first.release()
        assert (second.result() / MANIFEST_FILE).is_file()
