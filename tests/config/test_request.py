from typing import Any

import pytest

from oelm.base.errors import ConfigError
from oelm.config.request import TrainRequest, model_config, resolve

from .test_manifest import MANIFEST


def resolved(**wishes: Any) -> Any:
    return resolve(TrainRequest(**wishes), MANIFEST, "data/stories")


def test_sizes_by_name_and_by_number() -> None:
    assert model_config(TrainRequest(size="medium-512", seq_len=512), 50257).model_dump() == {
        "kind": "gpt",
        "layers": 6,
        "width": 512,
        "heads": 8,
        "ffn_width": 2048,
        "context": 512,
        "vocabulary": 50257,
        "dropout": 0.0,
    }
    odd = model_config(TrainRequest(size="tiny", layers=3, width=96, heads=6), 100)
    assert (odd.layers, odd.width, odd.heads, odd.ffn_width) == (3, 96, 6, 384)
    llama = model_config(TrainRequest(size="small", style="llama"), 100)
    assert (llama.style, llama.width, llama.ffn_width) == ("llama", 256, 672)
    assert model_config(TrainRequest(style="llama", ffn_width=100), 100).ffn_width == 100
    assert model_config(TrainRequest(ffn_width=100, vocabulary=128), 100).ffn_width == 100
    assert model_config(TrainRequest(vocabulary=128), 100).vocabulary == 128


def test_a_vocabulary_smaller_than_the_tokenizers_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"99 is smaller than the tokenizer's 100.*Fix: leave --vocab-size out"):
        model_config(TrainRequest(vocabulary=99), 100)


def test_a_width_that_the_heads_do_not_divide_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^model: width 130 is not divisible by 4 heads; 5 heads would do"):
        resolved(width=130)


@pytest.mark.parametrize(
    ("steps", "warmup", "validate_every"), [(1000, 50, 100), (100_000, 2000, 1000), (7, 0, 1), (1, 0, 1)]
)
def test_defaults_follow_the_length_of_the_run(steps: int, warmup: int, validate_every: int) -> None:
    config = resolved(steps=steps)
    assert config.optim.warmup_steps == warmup
    assert config.train.validate_every == validate_every
    assert config.machine.save_every == validate_every


def test_wishes_are_kept() -> None:
    config = resolved(
        method="baseline+shift", lr=2e-3, min_lr=2e-4, warmup_steps=0, validate_every=3, save_every=5, seed=4, beta2=0.9
    )
    assert config.method.name == "baseline+shift"
    assert config.optim.lr == 2e-3
    assert config.optim.min_lr_ratio == pytest.approx(0.1)
    assert config.optim.warmup_steps == 0
    assert config.optim.beta2 == 0.9
    assert (config.train.validate_every, config.machine.save_every, config.seed) == (3, 5, 4)
    assert config.model.vocabulary == 257
    assert (config.data.folder, config.data.name, config.data.digest) == ("data/stories", "stories", MANIFEST.digest)


@pytest.mark.parametrize(
    ("wish", "complaint"),
    [
        ({"lr": 0.0}, "optim.lr"),
        ({"lr": -1.0}, "optim.lr"),
        ({"lr": 1e-4, "min_lr": 1e-3}, r"^min_lr 0\.001 is above lr 0\.0001.*Fix: lower min_lr, or raise lr\.$"),
        ({"warmup_steps": 1000}, "warm-up of 1000 steps does not fit"),
        ({"dropout": 1.0}, "dropout"),
        ({"method": "nonsense"}, "unknown method"),
        ({"size": "huge"}, "unknown size"),
    ],
)
def test_impossible_wishes_are_refused(wish: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as error:
        resolved(**wish)
    assert "\n" not in str(error.value)
