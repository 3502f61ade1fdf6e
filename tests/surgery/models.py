"""A tiny model of every architecture, float64, all weights of std 0.5: at the usual 0.02 a wrong model looks right."""

import math
import warnings
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
_TEXT = {"vocab_size": VOCABULARY, **_SIZES}
_DECODER = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_GROUPED = {**_TEXT, "num_key_value_heads": 2, **_DECODER}
_IMAGE = {"image_size": 8, "patch_size": 4}


def bert() -> PreTrainedModel:
    return transformers.BertForSequenceClassification(transformers.BertConfig(**_TEXT))


def bert_decoder() -> PreTrainedModel:
    config = transformers.BertConfig(is_decoder=True, add_cross_attention=True, **_TEXT)
    return transformers.BertLMHeadModel(config)


def classifier(name: str, **changes: object) -> PreTrainedModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # DeBERTa's code is scripted where it is imported
        config = getattr(transformers, f"{name}Config")(**{**_TEXT, **changes})
        return getattr(transformers, f"{name}ForSequenceClassification")(config)


def distilbert() -> PreTrainedModel:
    config = transformers.DistilBertConfig(vocab_size=VOCABULARY, dim=24, n_layers=3, n_heads=4, hidden_dim=40)
    return transformers.DistilBertForSequenceClassification(config)


def deberta(*, share_att_key: bool = True) -> PreTrainedModel:
    positions = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8}
    return classifier("DebertaV2", share_att_key=share_att_key, norm_rel_ebd="layer_norm", **positions)


def gpt2(**changes: object) -> PreTrainedModel:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=32, n_embd=24, n_layer=3, n_head=4, **_DECODER, **changes
    )
    return transformers.GPT2LMHeadModel(config)


def gpt_neo() -> PreTrainedModel:
    config = transformers.GPTNeoConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_layers=3,
        num_heads=4,
        attention_types=[[["global", "local", "global"], 1]],
        max_position_embeddings=32,
        window_size=4,
        **_DECODER,
    )
    return transformers.GPTNeoForCausalLM(config)


def decoder(name: str, **changes: object) -> PreTrainedModel:
    config = getattr(transformers, f"{name}Config")(**{**_GROUPED, **changes})
    return getattr(transformers, f"{name}ForCausalLM")(config)


def llama() -> PreTrainedModel:
    return decoder("Llama")


def opt() -> PreTrainedModel:
    config = {**_TEXT, **_DECODER, "ffn_dim": 40, "max_position_embeddings": 32, "word_embed_proj_dim": 24}
    return transformers.OPTForCausalLM(transformers.OPTConfig(**config))


def gpt_neox() -> PreTrainedModel:
    turned = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**_TEXT, **_DECODER, **turned))


def gemma3() -> PreTrainedModel:
    return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**_GROUPED, head_dim=6, sliding_window=4))


def t5(name: str = "T5") -> PreTrainedModel:
    config = getattr(transformers, f"{name}Config")(
        vocab_size=VOCABULARY, d_model=24, d_kv=5, d_ff=40, num_layers=2, num_decoder_layers=3, num_heads=4
    )
    config.decoder_start_token_id = 0
    return getattr(transformers, f"{name}ForConditionalGeneration")(config)


def bart(name: str = "Bart", **changes: object) -> PreTrainedModel:
    values = {
        "vocab_size": VOCABULARY,
        "d_model": 24,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 40,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
        **_DECODER,
    }
    config = getattr(transformers, f"{name}Config")(**{**values, **changes})
    return getattr(transformers, f"{name}ForConditionalGeneration")(config)


def whisper() -> PreTrainedModel:
    return bart("Whisper", num_mel_bins=8, max_source_positions=10, max_target_positions=16)


def image(name: str) -> PreTrainedModel:
    config = getattr(transformers, f"{name}Config")(**_SIZES, **_IMAGE)
    return getattr(transformers, f"{name}ForImageClassification")(config)


def dinov2() -> PreTrainedModel:
    sizes = {key: value for key, value in _SIZES.items() if key != "intermediate_size"}
    return transformers.Dinov2ForImageClassification(transformers.Dinov2Config(**sizes, **_IMAGE))


def clip() -> PreTrainedModel:
    text, vision = {**_TEXT, "max_position_embeddings": 16, **_DECODER}, {**_SIZES, **_IMAGE}
    return transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision))


MODELS: Mapping[str, Callable[[], PreTrainedModel]] = {
    "bert": bert,
    "electra": lambda: classifier("Electra", embedding_size=8),
    "roberta": lambda: classifier("Roberta", max_position_embeddings=40),
    "xlm-roberta": lambda: classifier("XLMRoberta", max_position_embeddings=40),
    "camembert": lambda: classifier("Camembert", max_position_embeddings=40),
    "distilbert": distilbert,
    "albert": lambda: classifier("Albert", embedding_size=8),
    "mpnet": lambda: classifier("MPNet"),
    "deberta-v2": deberta,
    "modernbert": lambda: classifier("ModernBert", **_DECODER, cls_token_id=1, sep_token_id=2, local_attention=4),
    "gpt2": gpt2,
    "gpt_neo": gpt_neo,
    "gpt_neox": gpt_neox,
    "opt": opt,
    "llama": llama,
    "mistral": lambda: decoder("Mistral"),
    "qwen2": lambda: decoder("Qwen2"),
    "gemma": lambda: decoder("Gemma", head_dim=6),
    "gemma2": lambda: decoder("Gemma2", head_dim=6, sliding_window=4),
    "smollm3": lambda: decoder("SmolLM3"),
    "qwen3": lambda: decoder("Qwen3", head_dim=6),
    "gemma3_text": gemma3,
    "olmo2": lambda: decoder("Olmo2"),
    "phi3": lambda: decoder("Phi3"),
    "t5": t5,
    "mt5": lambda: t5("MT5"),
    "bart": bart,
    "mbart": lambda: bart("MBart"),
    "whisper": whisper,
    "vit": lambda: image("ViT"),
    "deit": lambda: image("DeiT"),
    "dinov2": dinov2,
    "clip": clip,
}
FEW = ("bert", "gpt2", "llama", "t5", "gpt_neox", "phi3", "qwen3", "clip")
"""One of each kind: plain, fused, rotary and grouped, encoder-decoder, interleaved, unequal, normed, two towers."""


def expected_frozen(name: str) -> set[str]:
    """Names of Q and K, weights and biases, written out here and not by the table under test."""
    stacks = {
        "bert": "bert.encoder.layer.{0..2}.attention.self.query,key",
        "electra": "electra.encoder.layer.{0..2}.attention.self.query,key",
        "roberta": "roberta.encoder.layer.{0..2}.attention.self.query,key",
        "xlm-roberta": "roberta.encoder.layer.{0..2}.attention.self.query,key",
        "camembert": "roberta.encoder.layer.{0..2}.attention.self.query,key",
        "distilbert": "distilbert.transformer.layer.{0..2}.attention.q_lin,k_lin",
        "albert": "albert.encoder.albert_layer_groups.{0..0}.albert_layers.0.attention.query,key",
        "mpnet": "mpnet.encoder.layer.{0..2}.attention.attn.q,k",
        "deberta-v2": "deberta.encoder.layer.{0..2}.attention.self.query_proj,key_proj",
        "modernbert": "model.layers.{0..2}.attn.Wqkv.q,k",
        "gpt2": "transformer.h.{0..2}.attn.c_attn.q,k",
        "gpt_neo": "transformer.h.{0..2}.attn.attention.q_proj,k_proj",
        "gpt_neox": "gpt_neox.layers.{0..2}.attention.query_key_value.q,k",
        "opt": "model.decoder.layers.{0..2}.self_attn.q_proj,k_proj",
        "phi3": "model.layers.{0..2}.self_attn.qkv_proj.q,k",
        "vit": "vit.layers.{0..2}.attention.q_proj,k_proj",
        "deit": "deit.layers.{0..2}.attention.q_proj,k_proj",
        "dinov2": "dinov2.encoder.layer.{0..2}.attention.q_proj,k_proj",
        "clip": "text_model.encoder.layers.{0..2}.self_attn.q_proj,k_proj "
        "vision_model.encoder.layers.{0..2}.self_attn.q_proj,k_proj",
        **dict.fromkeys(
            ("t5", "mt5"),
            "encoder.block.{0..1}.layer.0.SelfAttention.q,k decoder.block.{0..2}.layer.0.SelfAttention.q,k "
            "decoder.block.{0..2}.layer.1.EncDecAttention.q,k",
        ),
        **dict.fromkeys(
            ("bart", "mbart", "whisper"),
            "model.encoder.layers.{0..1}.self_attn.q_proj,k_proj model.decoder.layers.{0..2}.self_attn.q_proj,k_proj "
            "model.decoder.layers.{0..2}.encoder_attn.q_proj,k_proj",
        ),
    }
    modules = [
        m for stack in stacks.get(name, "model.layers.{0..2}.self_attn.q_proj,k_proj").split() for m in _all(stack)
    ]
    biased = name in _BIASED
    tensors = {f"{module}.{part}" for module in modules for part in (["weight", "bias"] if biased else ["weight"])}
    return {tensor for tensor in tensors if not (name == "whisper" and tensor.endswith("k_proj.bias"))}


_BIASED = set(MODELS) - {
    *("modernbert", "gpt_neo", "llama", "mistral", "gemma", "gemma2", "smollm3", "qwen3", "gemma3_text", "olmo2"),
    *("phi3", "t5", "mt5"),
}


def _all(stack: str) -> list[str]:
    """`h.{0..2}.q,k` -> h.0.q, h.0.k, h.1.q, ..."""
    before, _, rest = stack.partition("{0..")
    last, _, after = rest.partition("}")
    path, _, sides = after.rpartition(".")
    return [f"{before}{layer}{path}.{side}" for layer in range(int(last) + 1) for side in sides.split(",")]


def bold(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """The same model in float64, in evaluation mode, with all weights of std 0.5."""
    model.double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, dtype=torch.float64, generator=generator_for(seed, "bold", name))
            parameter.copy_(0.5 * noise)
    return model


_IN_FLOAT32 = {"modernbert", "gpt_neo", "qwen3", "olmo2", "gemma", "gemma2", "gemma3_text"}


def rounding(name: str) -> float:
    """What may differ although nothing has changed: some architectures compute parts in float32, whatever they hold."""
    return 1e-5 if name in _IN_FLOAT32 else 1e-9


def tiny(name: str) -> PreTrainedModel:
    return bold(MODELS[name]())


def inputs(name: str) -> dict[str, Tensor]:
    generator = generator_for(0, "inputs")
    pixels = torch.randn(2, 3, 8, 8, dtype=torch.float64, generator=generator)
    tokens = torch.randint(3, VOCABULARY, (2, 11), generator=generator)
    decoded = torch.randint(3, VOCABULARY, (2, 7), generator=generator)
    if name in ("vit", "deit", "dinov2"):
        return {"pixel_values": pixels}
    if name == "clip":
        return {"input_ids": tokens, "pixel_values": pixels}
    if name == "whisper":
        sounds = torch.randn(2, 8, 20, dtype=torch.float64, generator=generator)
        return {"input_features": sounds, "decoder_input_ids": decoded}
    if name in ("t5", "mt5", "bart", "mbart"):
        return {"input_ids": tokens, "decoder_input_ids": decoded}
    return {"input_ids": tokens}


def answer(model: PreTrainedModel, name: str) -> Tensor:
    output = model(**inputs(name))
    return output.logits_per_image if name == "clip" else output.logits


def logits(model: PreTrainedModel, name: str) -> Tensor:
    with torch.no_grad():
        return answer(model, name)


def disagreement(actual: Tensor, expected: Tensor) -> float:
    """Largest difference, relative to the largest logit."""
    worst = ((actual - expected).abs().max() / expected.abs().max()).item()
    return worst if math.isfinite(worst) else math.inf
