from oelm.data import progress as module
from oelm.data.progress import ConsoleProgress


def test_lines_tell_stage_speed_and_time_left(capsys, monkeypatch):
    monkeypatch.setattr(module, "LINE_SECONDS", 0.0)
    with ConsoleProgress() as progress:
        progress.start("encoding", 4 << 20)
        progress.advance(1 << 20)
        progress.say("something worth a line")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "encoding ..."
    assert lines[1].startswith("encoding: 1 MB, ")
    assert "MB/s, 25%, " in lines[1]
    assert lines[1].endswith(" s left")
    assert "something worth a line" in lines


def test_lines_are_rare(capsys):
    with ConsoleProgress() as progress:
        progress.start("counting", None)
        for _ in range(100):
            progress.advance(1 << 20)
    assert capsys.readouterr().err.splitlines() == ["counting ..."]


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with ConsoleProgress() as progress:
        progress.start("encoding", 2 << 20)
        progress.advance(2 << 20)
    printed = capsys.readouterr().err
    assert "encoding" in printed
    assert "2.1/2.1 MB" in printed
