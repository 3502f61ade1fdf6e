from pathlib import Path

from oelm.train.folder import RunFolder
from train.processes import started
from train.toys import TINY, toy_text


def test_from_a_text_file_to_text(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """prepare, train; then generate and compare work on the result."""
    text, data, run = tmp_path / "my.txt", tmp_path / "mine", tmp_path / "run"
    text.write_text(toy_text())
    assert started(["prepare", str(text), f"--out={data}", "--vocab-size=300"]).ended().code == 0
    sizes = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    trained = started(["train", f"--data={data}", f"--out-dir={run}", "--steps=20", *sizes, "--device=cpu"]).ended()
    assert (trained.code, trained.err) == (0, "")
    assert "perplexity" in trained.out
    assert "(25.0% of the block matrices frozen)" in " ".join(trained.out.split())
    assert RunFolder(run).record().config.data.name == "mine"
    spoken = started(["generate", str(run), "--prompt=the cat", "--tokens=8"]).ended()
    assert (spoken.code, spoken.err) == (0, "")
    assert spoken.out.startswith("the cat")
    compared = started(["compare", str(run)]).ended()
    assert compared.code == 0
    assert "oelm" in compared.out
