"""`oelm-exact`: orthogonal rows, and the same function; with equal lengths another one."""

import pytest
import torch
from tests.surgery.models import disagreement, inputs, logits, tiny

from oelm.base.errors import ConfigError
from oelm.config.methods import parse_method
from oelm.method.geometry import gram_error
from oelm.surgery.convert import convert
from oelm.surgery.orthogonal import exact_heads, head_norms, row_norms
from oelm.surgery.sites import open_sites


def drawn(heads: int = 3, head_width: int = 4, width: int = 10) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (2, heads, head_width, width)
    q_HKD, k_HKD = torch.randn(shape, dtype=torch.float64, generator=generator)
    return q_HKD, k_HKD


def test_the_product_stays_and_rows_become_orthogonal_and_equally_long_on_both_sides() -> None:
    old_q, old_k = drawn()
    q_HKD, k_HKD = exact_heads(old_q, old_k, 10)
    assert torch.allclose(q_HKD.transpose(1, 2) @ k_HKD, old_q.transpose(1, 2) @ old_k, atol=1e-12)
    assert torch.allclose(row_norms(q_HKD), row_norms(k_HKD))
    singular_HK = torch.linalg.svdvals(old_q.transpose(1, 2) @ old_k)[:, :4]
    assert torch.allclose(row_norms(q_HKD).square(), singular_HK)
    for w_HKD in (q_HKD, k_HKD):
        assert gram_error(w_HKD / row_norms(w_HKD).unsqueeze(2)) < 1e-12
        assert gram_error(w_HKD / head_norms(w_HKD).view(-1, 1, 1)) > 0.1


def test_equal_keeps_the_directions_and_the_size_of_the_product() -> None:
    old_q, old_k = drawn()
    exact, equal = exact_heads(old_q, old_k, 10), exact_heads(old_q, old_k, 10, equal=True)
    for one, other in zip(exact, equal, strict=True):
        assert torch.allclose(one / row_norms(one).unsqueeze(2), other / row_norms(other).unsqueeze(2))
        assert gram_error(other / head_norms(other).view(-1, 1, 1)) < 1e-12
    products = [q.transpose(1, 2) @ k for q, k in (exact, equal)]
    assert torch.allclose(*(product.square().sum((1, 2)) for product in products))
    assert not torch.allclose(*products, atol=0.1)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_frozen_it_learns_as_keep_does_and_with_equal_rows_it_does_not(name: str) -> None:
    def losses(method: str) -> list[float]:
        model = tiny(name).train(False)
        convert(model, method)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimiser = torch.optim.AdamW(trained, lr=1e-2, weight_decay=0.1)
        curve = []
        for _ in range(8):
            output = model(**inputs(name), labels=inputs(name)["input_ids"] if name == "gpt2" else torch.tensor([0, 1]))
            optimiser.zero_grad()
            output.loss.backward()
            optimiser.step()
            curve.append(output.loss.item())
        return curve

    keep, exact, equal = losses("keep"), losses("oelm-exact"), losses("oelm-exact+equal")
    assert exact == pytest.approx(keep, rel=1e-9)
    assert abs(equal[0] - keep[0]) > 1e-3 * abs(keep[0])
    assert keep[-1] < keep[0]


def test_one_side_frozen_is_still_exact() -> None:
    model = tiny("bert")
    before = logits(model, "bert")
    audit = convert(model, "oelm-exact+freeze=q+layers=1")
    assert disagreement(logits(model, "bert"), before) < 1e-9
    assert [site.key.written for site in audit.sites] == [False, True, False]
    assert all("layer.1.attention.self.query" in name for name in audit.frozen_names)


def test_a_head_of_lower_rank_is_refused() -> None:
    model = tiny("bert")
    w_HKD = open_sites(model)[1].key.w_HKD
    w_HKD[2, 0] = w_HKD[2, 1]
    before = logits(model, "bert")
    with pytest.raises(ConfigError, match=r"layer\.1\.attention\.self\.query uses fewer dimensions.*take keep"):
        convert(model, "oelm-exact")
    assert torch.equal(logits(model, "bert"), before)


def test_the_grammar() -> None:
    assert parse_method("oelm-exact+equal").pretrained == "exact-equal"
    for wrong in ("oelm+equal", "keep+equal"):
        with pytest.raises(ConfigError, match="belongs to oelm-exact"):
            parse_method(wrong)
    for wrong in ("oelm-exact+tied", "oelm-exact+matched"):
        with pytest.raises(ConfigError):
            convert(tiny("bert"), wrong)


def test_the_audit_says_so() -> None:
    assert "logits change by rounding alone" in str(convert(tiny("bert"), "oelm-exact"))
    assert "given one length" in str(convert(tiny("bert"), "oelm-exact+equal"))
