from typing import Any

import pytest
from pydantic import ValidationError

from builders import run_config
from oelm.config.run import RunConfig

# Every field is there: a plan with layers and a calendar that has a number.
CONFIG = run_config("oelm+freeze=0.25+all-but-last=1+until=50")

# One other value for every field that changes the numbers.
CHANGES: dict[str, Any] = {
    "model.layers": 4,
    "model.width": 32,
    "model.heads": 2,
    "model.ffn_width": 96,
    "model.context": 10,
    "model.vocabulary": 31,
    "model.dropout": 0.1,
    "method.query": "xavier",
    "method.key": "normal",
    "method.key_source": "tied",
    "method.scale": "norm-matched",
    "method.plan.query": False,
    "method.plan.key": False,
    "method.plan.ffn_share": 0.5,
    "method.plan.layers.kind": {"kind": "all"},
    "method.plan.layers.count": 2,
    "method.plan.when.kind": {"kind": "always"},
    "method.plan.when.end": 0.5,
    "method.extras.shift": True,
    "method.extras.gain": True,
    "method.extras.core": True,
    "method.extras.rank": 1,
    "method.extras.layer_lr": 0.9,
    "data.digest": "fedcba9876543210",
    "optim.lr": 3.1e-4,
    "optim.min_lr_ratio": 0.1,
    "optim.warmup_steps": 11,
    "optim.weight_decay": 0.0,
    "optim.clip": 0.5,
    "optim.beta1": 0.8,
    "optim.beta2": 0.99,
    "optim.epsilon": 1e-6,
    "train.steps": 101,
    "train.batch_size": 9,
    "train.accumulate": 2,
    "train.processes": 2,
    "train.precision": "bf16",
    "train.validate_every": 11,
    "train.validation_sequences": 17,
    "train.validation_half": "first",
    "seed": 1,
}

# ... and for every field that does not.
INDIFFERENT: dict[str, Any] = {
    "method.name": "another label",
    "data.folder": "elsewhere",
    "data.name": "another name",
    "machine.device": "cuda",
    "machine.save_every": 7,
    "machine.log_every": 3,
    "machine.compile": True,
    "machine.checkpoint_activations": True,
    "machine.tensorboard": False,
    "study": {"study": "screening", "stage": "final", "primary": "oelm"},
}


def leaves(values: dict[str, Any], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for key, value in values.items():
        found |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}"}
    return found


def changed(path: str, value: Any) -> RunConfig:
    """The config with one field changed; a `kind` is changed by replacing what it is the kind of."""
    values = CONFIG.model_dump(mode="json")
    *parents, last = path.removesuffix(".kind").split(".")
    place = values
    for parent in parents:
        place = place[parent]
    assert place[last] != value
    place[last] = value
    return RunConfig.model_validate(values)


def test_every_field_is_on_one_of_the_two_lists() -> None:
    fixed = {"model.kind", "data.kind", "method.pretrained"}  # other values belong to fine-tuning, not to this config
    assert leaves(CONFIG.model_dump(mode="json")) == CHANGES.keys() | INDIFFERENT.keys() | fixed
    assert not CHANGES.keys() & INDIFFERENT.keys()


@pytest.mark.parametrize("path", CHANGES)
def test_what_changes_the_numbers_changes_the_fingerprint(path: str) -> None:
    assert changed(path, CHANGES[path]).fingerprint != CONFIG.fingerprint


@pytest.mark.parametrize(("field", "usual", "other"), [("schedule", "cosine", "linear"), ("decay", "matrices", "all")])
def test_schedule_and_decay_are_written_where_they_are_not_usual(field: str, usual: str, other: str) -> None:
    values = CONFIG.model_dump(mode="json")
    assert field not in values["optim"]
    named, changed = ({**values, "optim": {**values["optim"], field: value}} for value in (usual, other))
    assert RunConfig.model_validate(named).fingerprint == CONFIG.fingerprint
    assert RunConfig.model_validate(changed).fingerprint != CONFIG.fingerprint


def test_a_style_changes_the_fingerprint_and_the_usual_one_is_not_written() -> None:
    values = CONFIG.model_dump(mode="json")
    assert "style" not in values["model"]
    named, llama = ({**values, "model": {**values["model"], "style": style}} for style in ("gpt", "llama"))
    assert RunConfig.model_validate(named).fingerprint == CONFIG.fingerprint
    assert RunConfig.model_validate(llama).fingerprint != CONFIG.fingerprint
    assert RunConfig.model_validate(llama).model_dump(mode="json")["model"]["style"] == "llama"


def test_all_these_fingerprints_differ() -> None:
    doubled = {"train.accumulate", "train.processes"}  # the same global batch of 16
    fingerprints = {changed(path, CHANGES[path]).fingerprint for path in CHANGES.keys() - doubled}
    assert len(fingerprints) == len(CHANGES) - 2


@pytest.mark.parametrize("path", INDIFFERENT)
def test_nothing_else_does(path: str) -> None:
    other = changed(path, INDIFFERENT[path])
    assert other != CONFIG
    assert other.fingerprint == CONFIG.fingerprint


def test_batches_count_by_their_total() -> None:
    splits = [(16, 1, 1), (8, 2, 1), (4, 2, 2), (1, 4, 4), (2, 1, 8)]
    configs = [run_config(batch_size=b, accumulate=a, processes=p) for b, a, p in splits]
    assert {config.train.sequences_per_step for config in configs} == {16}
    assert len({config.fingerprint for config in configs}) == 1
    assert run_config(batch_size=8).fingerprint != configs[0].fingerprint


def test_labels_of_one_method_share_a_fingerprint() -> None:
    assert run_config("baseline+shift+gain").fingerprint == run_config("baseline+gain+shift").fingerprint
    assert run_config("oelm+until=1e1").fingerprint == run_config("oelm+until=10").fingerprint


def test_what_needs_a_pre_trained_model_is_refused_from_scratch() -> None:
    with pytest.raises(ValidationError, match="needs a pre-trained model"):
        run_config("oelm-qr")


def test_a_plan_that_would_compile_at_every_change_is_refused() -> None:
    values = run_config("oelm+every=4").model_dump()
    values["machine"]["compile"] = True
    with pytest.raises(ValidationError, match="would compile anew"):
        RunConfig.model_validate(values)


def test_a_warm_up_longer_than_the_run_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"warm-up of 10 steps does not fit into 10 steps; lower --warmup-steps"):
        run_config(steps=10)
    assert run_config(steps=11).train.steps == 11
    assert run_config(steps=1).train.steps == 1, "a single step has room for nothing"
