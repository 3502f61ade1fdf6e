"""The peers compute our baseline's function, so that only their speed can differ."""

import pytest
import torch

from builders import SMALL, bold_model, random_tokens, relative_error
from oelm.bench.plain_gpt import PlainGPT, continue_plainly
from oelm.evaluate.generation import Sampling, generate
from oelm.model.gpt import GPT


def plain_copy(model: GPT) -> PlainGPT:
    """A plain GPT with the weights of our baseline."""
    state = model.state_dict()
    plain = PlainGPT(model.config).double().eval()
    names = {"wte": "token_embedding", "wpe": "position_embedding", "ln_f": "final_norm"}
    inside = {"ln_1": "attention_norm", "attn.c_proj": "attention.o", "ln_2": "ffn_norm"}
    inside |= {"c_fc": "ffn.up", "c_proj": "ffn.down"}
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            module, _, kind = name.rpartition(".")
            if module in names:
                parameter.copy_(state[f"{names[module]}.{kind}"])
                continue
            _, layer, module = module.split(".", 2)
            if module == "attn.c_attn":
                parts = [state[f"layers.{layer}.attention.{side}.weight"] for side in "qkv"]
                parameter.copy_(torch.cat(parts))
            else:
                parameter.copy_(state[f"layers.{layer}.{inside[module]}.{kind}"])
    return plain


def errors(ours: GPT, plain: PlainGPT) -> tuple[float, float]:
    """Relative errors of logits, and of the gradient of the embedding."""
    tokens = random_tokens(SMALL, 3, SMALL.context)
    logits, others = ours(tokens), plain(tokens)
    logits.square().sum().backward()
    others.square().sum().backward()
    gradients = [ours.token_embedding.weight.grad, plain.wte.weight.grad]
    return relative_error(others, logits), relative_error(gradients[1], gradients[0])


def test_the_plain_gpt_is_our_baseline():
    ours = bold_model("baseline")
    assert max(errors(ours, plain_copy(ours))) < 1e-12


@pytest.mark.parametrize("damage", ["queries and keys", "positions", "one bias"])
def test_a_changed_copy_is_noticed(damage):
    ours = bold_model("baseline")
    plain = plain_copy(ours)
    with torch.no_grad():
        match damage:
            case "queries and keys":
                weight = plain.h[1].attn.c_attn.weight
                weight[: 2 * SMALL.width] = weight[: 2 * SMALL.width].roll(SMALL.width, 0)
            case "positions":
                plain.wpe.weight.copy_(plain.wpe.weight.roll(1, 0))
            case _:
                plain.h[0].c_fc.bias.zero_()
    assert min(errors(ours, plain)) > 1e-3


def test_it_continues_a_prompt_as_ours_does():
    ours = bold_model("baseline")
    expected = [1, 2, 3, *generate(ours, [1, 2, 3], tokens=5, sampling=Sampling(temperature=0))]
    assert continue_plainly(plain_copy(ours), torch.tensor([[1, 2, 3]]), 5).tolist() == [expected]


def test_its_embedding_is_its_output_matrix():
    plain = PlainGPT(SMALL)
    assert plain.lm_head.weight is plain.wte.weight


def test_the_hugging_face_peer_reads_and_continues_alike():
    from oelm.surgery.random_models import continue_greedily, logits_of, random_gpt2

    torch.manual_seed(0)
    model = random_gpt2(SMALL).eval()
    tokens = random_tokens(SMALL, 1, 4)
    assert logits_of(model, tokens).shape == (1, 4, SMALL.vocabulary)
    continued = continue_greedily(model, tokens, 3)
    assert continued.shape == (1, 7)
    assert continued[0, 4] == logits_of(model, tokens)[0, -1].argmax()
