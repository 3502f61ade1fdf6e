"""Every contradiction that a record can hold is planted in a sound one, and refused with the name of its file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oelm.base.errors import CheckpointError
from oelm.base.files import write_json
from oelm.config.consistency import contradiction, disagreement
from oelm.config.original_study import original_records
from oelm.config.rate_choice import vertex
from oelm.config.record import Record, TextBlocks
from oelm.config.study_role import Choice, StudyRole, Trial, Tuning
from oelm.report.record_files import load_records, read_record
from report.records import finetuned, make_arm, make_config, make_record

RESULTS = Path(__file__).resolve().parents[2] / "results"
Values = dict[str, Any]
TUNING = Tuning(grid=(1e-3, 3e-3, 1e-2), seed=1000, steps=400, runs=3, split="validation", measure="loss")


TRIED = (3.1, 2.9, 3.0)


def tuned(*, refine: bool = False, **choice: Any) -> Record:
    trials = tuple(Trial(lr=rate, loss=loss) for rate, loss in zip(TUNING.grid, TRIED, strict=True))
    chosen = Choice(cell="oelm", at_edge=False, trials=trials, **choice) if choice else None
    role = StudyRole(study="s", stage="final", tuning=TUNING.model_copy(update={"choice": chosen, "refine": refine}))
    return make_record(make_config("oelm", 0, lr=choice.get("lr", 3e-3), study=role), 2.6)


BLOCKS = TextBlocks(tokens=(10, 30, 60), losses=(20.0, 90.0, 150.0))
"""A loss of 260 / 100."""


def with_text() -> Record:
    record = make_record(make_config("oelm", 0), 2.6)
    return record.model_copy(update={"result": record.result.model_copy(update={"text": BLOCKS})})


SOUND = {
    "plain": make_record(make_config("oelm", 0), 2.6),
    "longer": make_record(make_config("oelm", 0, steps=450), 2.6),
    "frames": make_record(make_config("oelm-frame", 0), 2.6),
    "thawed": make_record(make_config("oelm+until=0.5", 0), 2.6, later=65_536),
    "tuned": tuned(),
    "chosen": tuned(lr=3e-3, best=3e-3),
    "refined": tuned(refine=True, lr=(VERTEX := vertex(TUNING.grid, TRIED)), best=3e-3, by="vertex"),
    "text": with_text(),
    "classified": finetuned("oelm", (0.9,))[0],
}


def last(name: str, value: Any) -> Callable[[Values], object]:
    """Change the last validation."""
    return lambda values: values["curve"][-1].update({name: value})


def part(*path: str, **changes: Any) -> Callable[[Values], object]:
    """Change some values at a place of the record."""

    def change(values: Values) -> None:
        for name in path:
            values = values[name]
        values.update(changes)

    return change


def evaluated(**changes: Any) -> Callable[[Values], object]:
    """Change the evaluation of the last step."""
    return lambda values: values["evaluations"][0].update(changes)


def trial(place: int, **changes: Any) -> Callable[[Values], object]:
    """Change what was tried first, second, ..."""
    return lambda values: values["config"]["study"]["tuning"]["choice"]["trials"][place].update(changes)


CONTRADICTIONS: dict[str, tuple[str, Callable[[Values], object], str]] = {
    "settings": ("plain", part("config", "optim", lr=9e-3), "its fingerprint is not that of its config"),
    "truncated curve": ("plain", lambda values: values["curve"].pop(), "its curve lacks step 400"),
    "hole in the curve": ("plain", lambda values: values["curve"].pop(1), "its curve lacks step 200"),
    "loss": ("plain", last("loss", 2.7), r"its loss 2.6 is not the end of its curve \(2.7\)"),
    "best": ("plain", part("result", best_loss=1.0), "its best loss 1.0 .* is not the lowest of its curve"),
    "perplexity": ("plain", part("result", "measures", perplexity=12.0), "its perplexity 12.0 does not follow"),
    "bits": ("plain", part("result", "measures", bits_per_byte=0.9), "its bits_per_byte 0.9 does not follow"),
    "blocks of text": (
        "text",
        part("result", "text", losses=[20.0, 90.0, 150.001]),
        r"its loss 2.6 is not that of its blocks of text \(2.6000",
    ),
    "tokens of blocks": ("text", part("result", "text", tokens=[10, 30, 50]), "its loss 2.6 is not that of its blocks"),
    "rate": ("tuned", part("config", "study", "tuning", grid=[1e-3, 1e-2]), "0.003 is not in the grid"),
    "chosen rate": ("chosen", part("config", "study", "tuning", "choice", lr=5e-3), "is not the chosen one, 0.005"),
    "best rate": ("chosen", part("config", "study", "tuning", "choice", best=2e-3), "0.002 was not tried"),
    "better rate": ("chosen", trial(2, loss=2.8), "is 0.003, but by its own trials 0.01 was better"),
    "diverged rate": ("chosen", trial(1, loss=None), "is 0.003, but by its own trials 0.01 was better"),
    "rate left out": (
        "chosen",
        part("config", "study", "tuning", grid=[1e-3, 2e-3, 3e-3, 1e-2]),
        "the learning rate 0.002 of its grid was not tried",
    ),
    "edge": (
        "chosen",
        part("config", "study", "tuning", "choice", at_edge=True),
        "it is wrong about its best learning rate 0.003 being the lowest or highest",
    ),
    "not refined": (
        "chosen",
        part("config", "study", "tuning", refine=True),
        rf"its learning rate 0.003 \(best\) is not what its trials choose, {VERTEX:g} \(vertex\)",
    ),
    "not the vertex": (
        "refined",
        trial(0, loss=3.5),
        rf"its learning rate {VERTEX:g} \(vertex\) is not what its trials choose, 0.00\d+ \(vertex\)",
    ),
    "nothing frozen": ("plain", part("counts", frozen=0), "its method oelm freezes weights, but none was frozen"),
    "nothing looked at": ("plain", part("audit", always_frozen=[]), "65,536 weights .* its audit looked at none"),
    "digests": ("plain", part("audit", digest_after="b"), "its digests say the contrary"),
    "frozen and trained": ("plain", part("audit", trained=["layers.0.attention.q.weight"]), "as frozen .* as trained"),
    "accuracy": (
        "classified",
        evaluated(measures={"accuracy": 0.95}),
        "its accuracy on dev is 0.9500, that of its predictions 0.9000",
    ),
    "another dev set": ("classified", evaluated(labels="0 1 0"), "1,000 predictions for the 3 examples of dev"),
    "another step": ("classified", evaluated(step=300), "its evaluation on dev is of step 300"),
}


def write(folder: Path, values: Values) -> Path:
    folder.mkdir()
    write_json(folder / "record.json", values)
    return folder / "record.json"


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_record_is_read(name: str, tmp_path: Path) -> None:
    assert contradiction(SOUND[name]) is None
    assert read_record(write(tmp_path / "run", SOUND[name].model_dump(mode="json"))) == SOUND[name]


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_refused_with_the_file_and_the_reason(name: str, tmp_path: Path) -> None:
    record, change, reason = CONTRADICTIONS[name]
    values = SOUND[record].model_dump(mode="json")
    change(values)
    file = write(tmp_path / "run", values)
    with pytest.raises(CheckpointError, match=rf"contradicts itself: .*{reason}.*Fix: ") as error:
        load_records([tmp_path])
    assert str(file) in str(error.value)


def written(folder: Path, records: list[Record]) -> Path:
    folder.mkdir(exist_ok=True)
    for place, record in enumerate(records):
        write(folder / f"run-{place}", record.model_dump(mode="json"))
    return folder


def test_two_seeds_with_one_loss_are_refused(tmp_path: Path) -> None:
    copied = make_arm("oelm", (2.6, 2.61, 2.6))
    with pytest.raises(CheckpointError, match=r"run-0.*\(seed 0\) and .*run-2.*\(seed 2\) have the same loss"):
        load_records([written(tmp_path, copied)])
    two_methods = [*make_arm("baseline", (2.6, 2.61)), *make_arm("oelm", (2.6, 2.61))]
    assert disagreement({str(place): record for place, record in enumerate(two_methods)}) is None


def test_two_arms_that_were_asked_the_same_with_different_answers_are_refused(tmp_path: Path) -> None:
    (one,), (other,) = finetuned("baseline", (0.9,)), finetuned("oelm", (0.91,))
    row = other.evaluations[0]
    flipped = " ".join("1" if label == "0" else "0" for label in row.labels.split())
    wrong = sum(ours == theirs for ours, theirs in zip(row.predictions.split(), flipped.split(), strict=True))
    changed = row.model_copy(update={"labels": flipped, "measures": {"accuracy": wrong / len(flipped.split())}})
    forged = other.model_copy(update={"evaluations": (changed,)})
    assert contradiction(forged) is None, "by itself it is sound"
    with pytest.raises(CheckpointError, match=r"run-0.* and .*run-1.* have different labels for the same examples"):
        load_records([written(tmp_path, [one, forged])])
    assert len(load_records([written(tmp_path / "as they were", [one, other])])) == 2


@pytest.mark.parametrize("change", [{"primary": "oelm-q"}, {"margin": 1.2}])
def test_a_primary_arm_or_margin_that_differs_between_seeds_is_refused(change: dict, tmp_path: Path) -> None:
    role = StudyRole(study="s", stage="final", primary="oelm")
    one, other = (
        make_arm("oelm", {seed: 2.6 + seed / 100}, study=role.model_copy(update=change if seed else {}))
        for seed in (0, 1)
    )
    with pytest.raises(CheckpointError, match="belong to one study but name different primary arms or margins"):
        load_records([written(tmp_path, [*one, *other])])


def test_what_another_study_reported_is_not_ours_to_refuse() -> None:
    assert [contradiction(record) for record in original_records() if contradiction(record)] == []


def test_every_committed_record_is_sound() -> None:
    assert len(load_records([RESULTS])) >= 100
