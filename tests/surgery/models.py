"""A tiny model of every architecture, float64, all weights of std 0.5: at the usual 0.02 a wrong model looks right."""

import math
from collections.abc import Callable, Mapping

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from oelm.base.runtime import generator_for

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

VOCABULARY = 37
_SIZES = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40}
_DECODER = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def bert() -> PreTrainedModel:
    config = transformers.BertConfig(vocab_size=VOCABULARY, **_SIZES)
    return transformers.BertForSequenceClassification(config)


def bert_decoder() -> PreTrainedModel:
    config = transformers.BertConfig(vocab_size=VOCABULARY, is_decoder=True, add_cross_attention=True, **_SIZES)
    return transformers.BertLMHeadModel(config)


def roberta() -> PreTrainedModel:
    config = transformers.RobertaConfig(vocab_size=VOCABULARY, max_position_embeddings=40, **_SIZES)
    return transformers.RobertaForSequenceClassification(config)


def gpt2(**changes: object) -> PreTrainedModel:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=32, n_embd=24, n_layer=3, n_head=4, **_DECODER, **changes
    )
    return transformers.GPT2LMHeadModel(config)


def llama() -> PreTrainedModel:
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=2, **_SIZES, **_DECODER)
    return transformers.LlamaForCausalLM(config)


def t5() -> PreTrainedModel:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=24, d_kv=5, d_ff=40, num_layers=2, num_decoder_layers=3, num_heads=4
    )
    config.decoder_start_token_id = 0
    return transformers.T5ForConditionalGeneration(config)


def bart() -> PreTrainedModel:
    config = transformers.BartConfig(
        vocab_size=VOCABULARY,
        d_model=24,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=2,
        encoder_ffn_dim=40,
        decoder_ffn_dim=40,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
        **_DECODER,
    )
    return transformers.BartForConditionalGeneration(config)


def vit() -> PreTrainedModel:
    return transformers.ViTForImageClassification(transformers.ViTConfig(image_size=8, patch_size=4, **_SIZES))


MODELS: Mapping[str, Callable[[], PreTrainedModel]] = {
    "bert": bert,
    "roberta": roberta,
    "gpt2": gpt2,
    "llama": llama,
    "t5": t5,
    "bart": bart,
    "vit": vit,
}
PLACES = {
    "bert": ("bert.encoder.layer.{}.attention.self.query", "bert.encoder.layer.{}.attention.self.key"),
    "roberta": ("roberta.encoder.layer.{}.attention.self.query", "roberta.encoder.layer.{}.attention.self.key"),
    "gpt2": ("transformer.h.{}.attn.c_attn.q", "transformer.h.{}.attn.c_attn.k"),
    "llama": ("model.layers.{}.self_attn.q_proj", "model.layers.{}.self_attn.k_proj"),
    "vit": ("vit.layers.{}.attention.q_proj", "vit.layers.{}.attention.k_proj"),
}


def expected_frozen(name: str) -> set[str]:
    """Names of Q and K, weights and biases, written out here and not by the table under test."""
    if name == "t5":
        modules = [f"encoder.block.{i}.layer.0.SelfAttention.{s}" for i in range(2) for s in "qk"]
        modules += [f"decoder.block.{i}.layer.0.SelfAttention.{s}" for i in range(3) for s in "qk"]
        modules += [f"decoder.block.{i}.layer.1.EncDecAttention.{s}" for i in range(3) for s in "qk"]
    elif name == "bart":
        modules = [f"model.encoder.layers.{i}.self_attn.{s}_proj" for i in range(2) for s in "qk"]
        modules += [f"model.decoder.layers.{i}.self_attn.{s}_proj" for i in range(3) for s in "qk"]
        modules += [f"model.decoder.layers.{i}.encoder_attn.{s}_proj" for i in range(3) for s in "qk"]
    else:
        modules = [place.format(i) for i in range(3) for place in PLACES[name]]
    parts = ["weight"] if name in ("llama", "t5") else ["weight", "bias"]
    return {f"{module}.{part}" for module in modules for part in parts}


def bold(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """The same model in float64, in evaluation mode, with all weights of std 0.5."""
    model.double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, dtype=torch.float64, generator=generator_for(seed, "bold", name))
            parameter.copy_(0.5 * noise)
    return model


def tiny(name: str) -> PreTrainedModel:
    return bold(MODELS[name]())


def inputs(name: str) -> dict[str, Tensor]:
    generator = generator_for(0, "inputs")
    if name == "vit":
        return {"pixel_values": torch.randn(2, 3, 8, 8, dtype=torch.float64, generator=generator)}
    tokens = torch.randint(3, VOCABULARY, (2, 11), generator=generator)
    if name in ("t5", "bart"):
        return {"input_ids": tokens, "decoder_input_ids": torch.randint(3, VOCABULARY, (2, 7), generator=generator)}
    return {"input_ids": tokens}


def logits(model: PreTrainedModel, name: str) -> Tensor:
    with torch.no_grad():
        return model(**inputs(name)).logits


def disagreement(actual: Tensor, expected: Tensor) -> float:
    """Largest difference, relative to the largest logit."""
    worst = ((actual - expected).abs().max() / expected.abs().max()).item()
    return worst if math.isfinite(worst) else math.inf
