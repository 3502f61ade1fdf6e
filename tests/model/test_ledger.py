import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from builders import LLAMA, MEDIUM_512, SMALL, STYLED, bold_model, built, random_tokens
from oelm.config.method import Method
from oelm.config.methods import METHODS, parse_method
from oelm.config.model import GPTConfig, Style
from oelm.config.request import TrainRequest, model_config
from oelm.method.cost import backward_flops, forward_flops, frozen_share
from oelm.method.freezing import frozen_names
from oelm.model.gpt import GPT
from oelm.model.ledger import count_weights, frozen_ratio, products, weight_table

# trained, frozen, absent
MEDIUM_COUNTS = {
    "baseline": (44_896_768, 0, 0),
    "oelm": (41_751_040, 3_145_728, 0),
    "oelm-frame": (41_751_136, 0, 3_145_728),
    "oelm-lowrank": (41_849_440, 0, 3_145_728),
    "oelm-core": (41_947_744, 1_572_864, 1_572_864),
}


def freeze(model: GPT, method: Method, config: GPTConfig) -> GPT:
    names = frozen_names(method.plan, weight_table(config, method), 0, 100)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in names)
    return model


def counted(model: GPT) -> tuple[int, int]:
    """Trained and frozen weights of a built model."""
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return trained, sum(parameter.numel() for parameter in model.parameters()) - trained


@pytest.mark.parametrize("name", MEDIUM_COUNTS)
def test_medium_512_to_the_digit(name: str) -> None:
    method, (trained, frozen, absent) = METHODS[name], MEDIUM_COUNTS[name]
    counts = count_weights(MEDIUM_512, method, 100)
    assert (counts.trained, counts.frozen, counts.absent) == (trained, frozen, absent)
    with torch.device("meta"):  # the real modules without their memory
        model = GPT(MEDIUM_512, method)
    assert counted(freeze(model, method, MEDIUM_512)) == (trained, frozen)


@pytest.mark.slow
def test_medium_512_with_memory_and_init() -> None:
    model = built(GPT(MEDIUM_512, METHODS["oelm-core"]), seed=0)
    assert counted(freeze(model, METHODS["oelm-core"], MEDIUM_512)) == MEDIUM_COUNTS["oelm-core"][:2]


@pytest.mark.parametrize(("size", "name"), STYLED)
def test_the_table_names_every_parameter_of_the_built_model(size: GPTConfig, name: str) -> None:
    method = parse_method(name)
    table = weight_table(size, method)
    stored = {weight.name: weight.count for weight in table if weight.stored}
    assert stored == {name: parameter.numel() for name, parameter in GPT(size, method).named_parameters()}
    assert len({weight.name for weight in table}) == len(table)


@pytest.mark.parametrize(("size", "name"), STYLED)
def test_absent_is_what_the_baseline_has_and_the_method_has_not(size: GPTConfig, name: str) -> None:
    method, plain = parse_method(name), GPT(size, METHODS["baseline"])
    absent = {weight.name for weight in weight_table(size, method) if not weight.stored}
    mine = dict(GPT(size, method).named_parameters())
    assert absent == {name for name, _ in plain.named_parameters() if name not in mine}


def test_layers_and_roles_match_the_names() -> None:
    for weight in weight_table(SMALL, parse_method("oelm-lowrank+freeze=0.25")):
        in_layer = weight.name.startswith("layers.")
        assert weight.layer == (int(weight.name.split(".")[1]) if in_layer else None)
        assert weight.in_ffn_share == ("ffn_share" in weight.name)


def torch_flops(model: GPT, *, backward: bool) -> int:
    with sdpa_kernel(SDPBackend.MATH):
        logits = model(random_tokens(model.config, 2, model.config.context)) if backward else None
        with FlopCounterMode(display=False) as counter:
            if logits is None:
                model(random_tokens(model.config, 2, model.config.context))
            else:
                logits.sum().backward()
    return int(counter.get_total_flops())


@pytest.mark.parametrize(("size", "name"), STYLED)
def test_flops_equal_torchs_own_count(size: GPTConfig, name: str) -> None:
    """So short a context is one block of all T x T pairs; counted are the (T+1)/2 per token that the mask leaves."""
    method = parse_method(name)
    model = freeze(bold_model(name, size), method, size)
    rows, tokens = products(size, method), 2 * SMALL.context
    thin = SMALL.heads * (method.thin or SMALL.head_width)
    # multiply-adds per token
    masked = SMALL.layers * (SMALL.width + thin) * (SMALL.context - (SMALL.context + 1) / 2)
    masked = 0 if method.blind else masked
    share = frozen_share(method.plan, weight_table(size, method), 100)
    assert torch_flops(model, backward=False) == tokens * (forward_flops(rows) + 2 * masked)
    assert torch_flops(model, backward=True) == tokens * (backward_flops(rows, share) + 4 * masked)


def test_the_flop_comparison_would_notice_one_thawed_matrix() -> None:
    method = METHODS["oelm"]
    model = freeze(bold_model("oelm"), method, SMALL)
    frozen = torch_flops(model, backward=True)
    model.get_parameter("layers.1.attention.q.weight").requires_grad_(True)
    assert torch_flops(model, backward=True) - frozen == 2 * 2 * SMALL.context * SMALL.width**2


@pytest.mark.parametrize(
    ("method", "ffn_width", "ratio"),
    [
        ("baseline", 2048, 0),
        ("oelm", 2048, 1 / 6),
        ("oelm-core", 2048, 1 / 12),
        ("oelm-frame", 2048, 0),
        ("oelm-ffn", 2048, 5 / 6),
        ("oelm+freeze=0.25", 2048, 0.25),
        ("oelm+freeze=0.5", 2048, 0.5),
        ("oelm", 1024, 2 / 8),
    ],
)
def test_the_frozen_share_of_the_block_matrices(method: str, ffn_width: int, ratio: float) -> None:
    """Matrices only, absent ones included: 4 D^2 + 2 D F per layer."""
    config = MEDIUM_512.model_copy(update={"ffn_width": ffn_width})
    assert frozen_ratio(config, parse_method(method), 100) == pytest.approx(ratio, abs=1e-9)


def test_llama_style_to_the_digit() -> None:
    """V D + L (4 D^2 + 3 D F + 2 D) + D, at the size that `oelm inspect --style llama` shows."""
    size = model_config(TrainRequest(style=Style.LLAMA, size="medium-512", seq_len=512), 50257)
    assert size.ffn_width == 1376
    matrices = 6 * (4 * 512**2 + 3 * 512 * 1376)
    counts = count_weights(size, METHODS["baseline"], 100)
    assert counts.trained == 50257 * 512 + matrices + (2 * 6 + 1) * 512
    assert "position embedding" not in {row.role for row in counts.roles}
    assert frozen_ratio(size, METHODS["oelm"], 100) == pytest.approx(2 * 6 * 512**2 / matrices)
    assert frozen_ratio(size, METHODS["oelm"], 100) == pytest.approx(1 / 6, rel=0.01), "about as large as GPT style"


def test_a_frozen_hidden_unit_takes_its_gate_row_up_row_and_down_column() -> None:
    method = parse_method("oelm+freeze=0.5")
    units = round(0.5 * LLAMA.ffn_width)
    frozen = frozen_names(method.plan, weight_table(LLAMA, method), 0, 100)
    shapes = {name: tuple(p.shape) for name, p in GPT(LLAMA, method).named_parameters() if name in frozen}
    share = {"gate.weight": (units, 24), "up.weight": (units, 24), "down.weight": (24, units)}
    assert {name: shape for name, shape in shapes.items() if "ffn" in name} == {
        f"layers.{layer}.ffn_share.{part}": shape for layer in range(3) for part, shape in share.items()
    }
    whole = frozen_names(METHODS["oelm-ffn"].plan, weight_table(LLAMA, METHODS["oelm-ffn"]), 0, 100)
    assert {name for name in whole if "ffn" in name} == {
        f"layers.{layer}.ffn.{part}" for layer in range(3) for part in share
    }
