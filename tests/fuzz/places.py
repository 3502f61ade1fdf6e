"""A small world to be attacked: tokens, a finished and an unfinished run, a study, texts; made once, copied often."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from fuzz.called import called
from train.toys import tiny_config, tokens, toy_text, trained

SETTINGS = {"steps": 4, "save_every": 2, "validate_every": 2, "log_every": 1}
STUDY = """
title: A study
data: {toy: {tokens: tokens}}
train: {size: tiny, steps: 4, seq_len: 16}
arms: [baseline, {method: oelm, settings: {lr: 1.0e-3}}]
axes: {warmup_steps: [1, 2]}
seeds: [0, 1]
primary: oelm
"""


@dataclass(frozen=True)
class World:
    """Where everything is."""

    root: Path

    @property
    def finished(self) -> Path:
        return self.root / "runs" / "finished"

    @property
    def unfinished(self) -> Path:
        return self.root / "runs" / "unfinished"

    @property
    def tokens(self) -> Path:
        return self.root / "tokens"

    def copied(self, root: Path) -> "World":
        """Another one, of which something may be broken."""
        shutil.copytree(self.root, root, symlinks=True)
        return World(root)


def new_world(root: Path) -> World:
    """All of it; the unfinished run has its first checkpoint, of step 2."""
    world = World(root)
    shutil.copytree(tokens(), world.tokens)
    trained(tiny_config(**SETTINGS), world.finished)  # type: ignore[arg-type]
    shutil.copytree(world.finished, world.unfinished)
    (world.unfinished / "record.json").unlink()
    shutil.rmtree(world.unfinished / "checkpoint" / "step-00000004")
    (root / "study.yaml").write_text(STUDY)
    (root / "toy.txt").write_text(toy_text())  # what the tokens were made from
    (root / "text.txt").write_text(toy_text(100))
    (root / "text.jsonl").write_text('{"text": "one two three"}\n{"text": "four five"}\n' * 20)
    (root / "table.tsv").write_text("text\tlabel\n" + "good film\t1\nbad film\t0\n" * 20)
    (root / "items.jsonl").write_text('{"good": "he runs", "bad": "he run"}\n' * 4)
    assert called("export", world.finished, "--out", root / "exported").code == 0
    return world
