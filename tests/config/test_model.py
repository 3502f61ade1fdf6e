import pytest
from pydantic import ValidationError

from oelm.base.errors import ConfigError
from oelm.config.methods import parse_method
from oelm.config.model import SIZES, GPTConfig, Style, default_ffn_width, named_size, query_key_width


def sized(width: int, heads: int) -> GPTConfig:
    return GPTConfig(layers=1, width=width, heads=heads, ffn_width=4, context=4, vocabulary=4)


def test_sizes_by_name() -> None:
    assert named_size("tiny") == (2, 128, 2)
    assert named_size("small") == (4, 256, 4)
    assert named_size("Medium-512") == (6, 512, 8)
    assert named_size("LARGE") == (8, 768, 12)
    assert all(sized(width, heads).head_width == 64 for _, width, heads in SIZES.values())
    with pytest.raises(ConfigError, match=r"unknown size 'huge'.*Fix: choose one of tiny.*--layers"):
        named_size("huge")


@pytest.mark.parametrize(("width", "heads", "fitting"), [(512, 7, 8), (30, 4, 3), (7, 3, 1), (100, 99, 100)])
def test_heads_that_do_not_divide_the_width_are_refused_with_ones_that_do(width: int, heads: int, fitting: int) -> None:
    with pytest.raises(
        ValidationError, match=f"width {width} is not divisible by {heads} heads; {fitting} heads would do"
    ):
        sized(width, heads)
    assert sized(width, fitting).head_width == width // fitting


@pytest.mark.parametrize("field", ["layers", "width", "heads", "ffn_width", "context", "vocabulary"])
def test_sizes_are_positive_whole_numbers(field: str) -> None:
    values = {"layers": 1, "width": 4, "heads": 2, "ffn_width": 4, "context": 4, "vocabulary": 4}
    for wrong in (0, -1, 1.5, "many", None):
        with pytest.raises(ValidationError):
            GPTConfig.model_validate({**values, field: wrong})


def test_a_swiglu_has_about_as_many_weights_as_a_gelu_ffn() -> None:
    for width, units in ((16, 32), (128, 352), (256, 672), (512, 1376), (768, 2048)):
        assert default_ffn_width(Style.LLAMA, width) == units
        assert default_ffn_width(Style.GPT, width) == 4 * width
        assert 3 * units == pytest.approx(8 * width, rel=0.035) or width < 128


def test_rotary_positions_need_pairs() -> None:
    def llama(width: int, heads: int) -> GPTConfig:
        return GPTConfig.model_validate({**sized(width, heads).model_dump(), "style": "llama"})

    with pytest.raises(ValidationError, match=r"3 heads of width 5: rotary positions turn pairs.*even; change"):
        llama(15, 3)
    with pytest.raises(ConfigError, match=r"oelm\+thin=3: .* 3 is odd.*Fix: choose an even width, such as \+thin=4"):
        query_key_width(llama(24, 4), parse_method("oelm+thin=3"))
    with pytest.raises(ConfigError, match=r"5 is odd.*Fix: .*\+thin=2"):
        query_key_width(llama(24, 4), parse_method("oelm+thin=5"))
    assert query_key_width(llama(24, 4), parse_method("oelm+thin=4")) == 4
    assert query_key_width(sized(24, 4), parse_method("oelm+thin=3")) == 3, "learned positions do not mind"
