"""Our GPT in Hugging Face's hands: the same logits for every method, and twins that must not have them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.builders import LLAMA, LLAMA_VARIETY, NORMED, SMALL, VARIETY, bold_model, random_tokens, relative_error
from tests.model.test_llama import exact
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2LMHeadModel, LlamaForCausalLM, StaticCache

from oelm.base.errors import ConfigError, DataError
from oelm.config.methods import METHODS
from oelm.config.model import GPTConfig, Style
from oelm.data.tokenizer import byte_tokenizer, save_tokenizer
from oelm.evaluate.generation import Sampling, generate
from oelm.exports import shifted
from oelm.exports.model_export import as_transformers, export
from oelm.exports.shifted import OelmGPTForCausalLM, OelmLlamaForCausalLM, shift_keys
from oelm.model.gpt import GPT

BYTES = GPTConfig(layers=2, width=24, heads=4, ffn_width=48, context=32, vocabulary=257)


@pytest.fixture
def tokenizer_file(tmp_path) -> Path:
    save_tokenizer(byte_tokenizer(), tmp_path / "tokenizer.json")
    return tmp_path / "tokenizer.json"


@pytest.mark.parametrize("method", [method for method in VARIETY if method not in NORMED])
def test_logits_are_the_same(method: str) -> None:
    model, tokens = bold_model(method), random_tokens(SMALL, 2, 12)
    exported = as_transformers(model)
    assert type(exported) is (OelmGPTForCausalLM if model.method.extras.shift else GPT2LMHeadModel)
    with torch.no_grad():
        assert relative_error(exported(tokens).logits, model(tokens)) < 1e-9


UNDIVIDED = "thin=4"  # of heads of width 6: rotary speeds that Llama's heads do not have


@pytest.mark.parametrize("method", [name for name in LLAMA_VARIETY if "norm" not in name and UNDIVIDED not in name])
def test_logits_are_the_same_in_llama_style(method: str) -> None:
    """Exactly, but that transformers computes a Llama's norms and angles in float32."""
    model, tokens = bold_model(method, LLAMA), random_tokens(LLAMA, 2, 12)
    exported = as_transformers(model)
    assert type(exported) is (OelmLlamaForCausalLM if model.method.extras.shift else LlamaForCausalLM)
    assert exported.config.attention_bias is model.method.extras.bias
    with torch.no_grad():
        assert relative_error(exported(tokens).logits, model(tokens)) < 1e-4
        assert relative_error(exact(exported)(tokens).logits, model(tokens)) < 1e-9


@pytest.mark.parametrize("config", [SMALL, LLAMA], ids=["gpt2", "llama"])
@pytest.mark.parametrize("method", ["oelm-frame", "oelm-lowrank"])
def test_a_static_cache_changes_nothing(method: str, config: GPTConfig) -> None:
    """It hands its whole memory back, of which most is empty."""
    exported, tokens = as_transformers(bold_model(method, config)), random_tokens(config, 2, 7)
    with torch.no_grad():
        whole = exported(tokens, use_cache=False).logits
        cache = StaticCache(config=exported.config, max_cache_len=16)
        first = exported(tokens[:, :4], past_key_values=cache).logits
        rest = exported(tokens[:, 4:], past_key_values=cache).logits
    assert relative_error(torch.cat([first, rest], 1), whole) < 1e-5


def test_a_turn_before_the_shift_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = bold_model("baseline+shift", LLAMA), random_tokens(LLAMA, 2, 12)
    exported = exact(as_transformers(model))
    with torch.no_grad():
        assert relative_error(exported(tokens).logits, model(tokens)) < 1e-9
        monkeypatch.setattr(shifted, "shift_keys", lambda k_BHSK, shift_H, start_B: k_BHSK)
        turn = shifted.turn

        def shifted_last(x_BHTK: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
            turns.append(turn(x_BHTK, cos, sin))
            is_key = len(turns) % 2 == 0
            layer = exported.model.layers[len(turns) // 2 - 1].self_attn if is_key else None
            return shift_keys(turns[-1], layer.shift_H) if layer else turns[-1]

        turns: list[Tensor] = []
        monkeypatch.setattr(shifted, "turn", shifted_last)
        assert relative_error(exported(tokens).logits, model(tokens)) > 1e-3
        assert len(turns) == 2 * LLAMA.layers


@pytest.mark.parametrize("config", [SMALL, LLAMA])
@pytest.mark.parametrize("method", [method.replace("thin=3", "thin=2") for method in NORMED])
def test_a_norm_is_refused(method: str, config: GPTConfig) -> None:
    with pytest.raises(ConfigError, match=r"norm of queries and keys.*Fix:.*without it"):
        as_transformers(bold_model(method, config))


def test_thin_heads_that_cannot_turn_like_wide_ones_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"heads have one width, 6.*width 4.*Fix:.*\+thin that divides 6"):
        as_transformers(bold_model(f"oelm+{UNDIVIDED}", LLAMA))


@pytest.mark.parametrize("part", ["q_bias_E", "core_HKK", "gain_H"])
def test_nothing_is_left_out_of_thin_strided_frames_with_biases(part: str) -> None:
    model, tokens = bold_model("oelm-frame+core+bias+thin=4+strided"), random_tokens(SMALL, 2, 12)
    before = as_transformers(model)
    for name, parameter in model.named_parameters():
        if name.endswith(part):
            parameter.data.mul_(-0.7)
    with torch.no_grad():
        assert relative_error(before(tokens).logits, model(tokens)) > 1e-3
        assert relative_error(as_transformers(model)(tokens).logits, model(tokens)) < 1e-9


PARTS = ("q", "core_HKK", "gain_H", "shift_H", "q_update.up", "k_update.down", "ffn_share.up")


@pytest.mark.parametrize(
    ("config", "part"),
    [*((SMALL, part) for part in PARTS), *((LLAMA, part) for part in (*PARTS, "k_bias_E", "ffn_share.gate"))],
)
def test_nothing_is_left_out(config: GPTConfig, part: str) -> None:
    """The twin: a change of any part of the model must show in the exported one."""
    method = "oelm+freeze=0.25+core+gain+shift+rank=2+bias"
    model, tokens = bold_model(method, config), random_tokens(SMALL, 2, 12)
    before = as_transformers(model)
    for name, parameter in model.named_parameters():
        if f".{part}" in name:
            parameter.data.mul_(-0.7)
    with torch.no_grad():
        assert relative_error(before(tokens).logits, model(tokens)) > 1e-3
        assert relative_error(exact(as_transformers(model))(tokens).logits, model(tokens)) < 1e-9


MODEL_TYPES = {Style.GPT: ("gpt2", "oelm-gpt"), Style.LLAMA: ("llama", "oelm-llama")}


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("method", ["baseline", "oelm", "oelm-core"])
def test_a_folder_that_auto_classes_load(method: str, style: Style, tokenizer_file: Path, tmp_path) -> None:
    model = bold_model(method, BYTES.model_copy(update={"style": style}))
    export(model, tokenizer_file, tmp_path / "out")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert loaded.lm_head.weight is loaded.get_input_embeddings().weight
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["tie_word_embeddings"] is True
    assert config["eos_token_id"] == 256
    assert config["model_type"] == MODEL_TYPES[style][model.method.extras.shift]

    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    text = "Ein Süßes <|endoftext|> zwölf"
    assert tokenizer(text)["input_ids"] == byte_tokenizer().encode(text).ids == list(text.encode())
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert tokenizer.eos_token_id == 256

    prompt = torch.tensor([tokenizer("Once upon")["input_ids"]])
    with torch.no_grad():
        assert relative_error(exact(loaded)(prompt).logits, model(prompt)) < 1e-9
    ours = list(generate(model, prompt[0].tolist(), tokens=20, sampling=Sampling(temperature=0)))
    for cache in (True, False):
        theirs = loaded.generate(prompt, max_new_tokens=20, do_sample=False, use_cache=cache, eos_token_id=None)
        assert theirs[0, prompt.shape[1] :].tolist() == ours


def test_a_llama_has_as_many_weights_as_ours() -> None:
    model = bold_model("baseline", LLAMA)
    ours = sum(parameter.numel() for parameter in model.parameters())
    assert sum(parameter.numel() for parameter in as_transformers(model).parameters()) == ours


def test_counts_of_a_tied_embedding() -> None:
    model = bold_model("baseline", BYTES)
    zero_biases = BYTES.layers * 4 * BYTES.width
    ours = sum(parameter.numel() for parameter in model.parameters())
    assert sum(parameter.numel() for parameter in as_transformers(model).parameters()) == ours + zero_biases


def test_float32_stays_float32() -> None:
    model = GPT(BYTES, bold_model("oelm").method)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(0))
    exported = as_transformers(model.eval())
    assert exported.dtype == torch.float32
    tokens = random_tokens(BYTES, 2, 20)
    with torch.no_grad():
        assert relative_error(exported(tokens).logits, model(tokens)) < 1e-5


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("method", ["baseline+shift", "oelm-core", "oelm-frame", "oelm-lowrank", "oelm"])
def test_padded_prompts_are_continued_as_alone(method: str, style: Style) -> None:
    """Batches with padding on the left, with and without cache, greedily and by beams: as each prompt by itself."""
    model = exact(as_transformers(bold_model(method, BYTES.model_copy(update={"style": style})), end_of_text=256))
    assert model.config.pad_token_id == 256
    long, short = random_tokens(BYTES, 1, 10), random_tokens(BYTES, 1, 6, seed=1)
    padded = torch.cat([long, torch.cat([torch.full((1, 4), 256), short], dim=1)])
    mask = torch.ones_like(padded)
    mask[1, :4] = 0
    for beams in (1, 3):
        settings = {"max_new_tokens": 8, "do_sample": False, "num_beams": beams, "eos_token_id": None}
        alone = [model.generate(row, attention_mask=torch.ones_like(row), **settings)[0] for row in (long, short)]
        for cache in (True, False):
            together = model.generate(padded, attention_mask=mask, use_cache=cache, **settings)
            assert torch.equal(together[0], alone[0])
            assert torch.equal(together[1, 4:], alone[1])


ON_THEIR_OWN = sorted(
    name for name, method in METHODS.items() if method.pretrained is None and method.comparator is None
)


@pytest.mark.parametrize("method", ON_THEIR_OWN)
def test_every_method_generates_in_batches_from_its_folder(method: str, tokenizer_file: Path, tmp_path: Path) -> None:
    """As the harness does it: the folder's own tokenizer pads on the left, and `generate` has the cache."""
    export(bold_model(method, BYTES), tokenizer_file, tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    prompts = ["Once upon", "A", "cat 12"]
    settings = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None}
    together = model.generate(**tokenizer(prompts, padding=True, return_tensors="pt"), **settings)
    for row, prompt in zip(together, prompts, strict=True):
        alone = model.generate(**tokenizer([prompt], return_tensors="pt"), **settings)[0]
        assert row[-5:].tolist() == alone[-5:].tolist()


@pytest.mark.parametrize("style", Style)
def test_padding_on_either_side_is_not_seen(style: Style) -> None:
    ours = bold_model("baseline+shift", BYTES.model_copy(update={"style": style}))
    model = exact(as_transformers(ours, end_of_text=256))
    tokens = random_tokens(BYTES, 2, 10)
    mask = torch.ones_like(tokens)
    mask[0, 6:] = 0
    with torch.no_grad():
        right = model(tokens, attention_mask=mask).logits[0, :6]
        assert relative_error(right, model(tokens[:1, :6]).logits[0]) < 1e-9
        places = torch.tensor([[0, 0, 0, 0, *range(6)], list(range(10))])
        left = model(tokens, attention_mask=mask.flip(1), position_ids=places).logits[0, 4:]
        assert relative_error(left, model(tokens[:1, 4:]).logits[0]) < 1e-9
        seen = model(tokens, position_ids=places).logits[0, 4:]  # the twin: without the mask, padding shows
        assert relative_error(seen, left) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("first", ["oelm", "transformers"])
def test_auto_classes_know_exports_after_import_oelm(first: str, tokenizer_file: Path, tmp_path) -> None:
    """In a process of its own, in either order; no remote code is asked for."""
    export(bold_model("oelm-frame", BYTES), tokenizer_file, tmp_path / "out")
    imports = ["import oelm", "from transformers import AutoModelForCausalLM, AutoTokenizer"]
    script = "\n".join(
        [
            *(imports if first == "oelm" else reversed(imports)),
            "import sys",
            "model = AutoModelForCausalLM.from_pretrained(sys.argv[1]).eval()",
            "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])",
            "batch = tokenizer(['Once upon', 'A'], padding=True, return_tensors='pt')",
            "print(type(model).__module__, model.generate(**batch, max_new_tokens=3, do_sample=False).shape[0])",
        ]
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", script, str(tmp_path / "out")]
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["oelm.exports.shifted", "2"]


def test_a_missing_tokenizer_is_refused(tmp_path) -> None:
    with pytest.raises(DataError, match="there is no tokenizer"):
        export(bold_model("oelm", BYTES), tmp_path / "tokenizer.json", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_there_is_not_replaced(tokenizer_file: Path, tmp_path) -> None:
    model, out = bold_model("oelm", BYTES), tmp_path / "out"
    out.mkdir()
    export(model, str(tokenizer_file), str(out))
    with pytest.raises(ConfigError, match="exists already"):
        export(model, tokenizer_file, out)


@pytest.mark.slow
@pytest.mark.parametrize(("style", "tolerance"), [(Style.GPT, 1e-9), (Style.LLAMA, 1e-4)])
def test_a_key_shift_travels_with_its_code(style: Style, tolerance: float, tokenizer_file: Path, tmp_path) -> None:
    """Where oelm is not installed, the folder's own code runs."""
    model = bold_model("oelm-frame", BYTES.model_copy(update={"style": style}))
    export(model, tokenizer_file, tmp_path / "out")
    script = (
        "import sys, torch\n"
        "from transformers import AutoModelForCausalLM\n"
        "model = AutoModelForCausalLM.from_pretrained(sys.argv[1], trust_remote_code=True).eval()\n"
        "assert 'oelm' not in sys.modules\n"
        "torch.save(model(torch.arange(12)[None]).logits.detach(), sys.argv[2])\n"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", script, str(tmp_path / "out"), str(tmp_path / "logits.pt")]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    with torch.no_grad():
        assert relative_error(torch.load(tmp_path / "logits.pt"), model(torch.arange(12)[None])) < tolerance
