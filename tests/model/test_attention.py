"""Attention beside its definition, written out token by token with explicit matrices; each comparison can fail."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from builders import SMALL, VARIETY, built, embolden, relative_error
from oelm.base.runtime import generator_for
from oelm.config.methods import parse_method
from oelm.model.attention import Attention, LowRank
from oelm.model.gpt import GPT
from oelm.model.projecting import mix_with_previous, project

H, K, D, T = SMALL.heads, SMALL.head_width, SMALL.width, 7
X_BTD = torch.randn(2, T, D, dtype=torch.float64, generator=generator_for(0, "x"))
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Definition:
    """One attention layer as explicit numbers: every extra present, neutral where the method has none."""

    q_HKD: Tensor
    k_HKD: Tensor
    v_HKD: Tensor
    o_DD: Tensor
    m_H: Tensor
    factor_H: Tensor
    core_HKK: Tensor
    scale: float = 1 / math.sqrt(K)

    def __call__(self, x_BTD: Tensor) -> Tensor:
        return torch.stack([self.one_text(x_TD) for x_TD in x_BTD])

    def one_text(self, x_TD: Tensor) -> Tensor:
        mixed = [torch.stack([self.one_head(h, t, x_TD) for h in range(H)]).flatten() for t in range(len(x_TD))]
        return torch.stack([self.o_DD @ y_D for y_D in mixed])

    def one_head(self, h: int, t: int, x_TD: Tensor) -> Tensor:
        """sum over u <= t of softmax_u(s(t, u)) v_u."""
        q_K = self.q_HKD[h] @ x_TD[t]
        scores = [self.factor_H[h] * (q_K @ self.core_HKK[h] @ self.key(h, u, x_TD)) * self.scale for u in range(t + 1)]
        weights = torch.stack(scores).softmax(0)
        return torch.stack([weights[u] * (self.v_HKD[h] @ x_TD[u]) for u in range(t + 1)]).sum(0)

    def key(self, h: int, u: int, x_TD: Tensor) -> Tensor:
        """(1 - m) k_u + m k_{u-1}, with k_{-1} = k_0."""
        k_K, before_K = self.k_HKD[h] @ x_TD[u], self.k_HKD[h] @ x_TD[max(0, u - 1)]
        return (1 - self.m_H[h]) * k_K + self.m_H[h] * before_K


def definition_of(attention: Attention) -> Definition:
    """The same numbers, differentiable; a frame is an explicit identity and a shared key an explicit copy."""
    eye_HKD = torch.eye(D, dtype=torch.float64).view(H, K, D)
    ones_H, eye_HKK = torch.ones(H, dtype=torch.float64), torch.eye(K, dtype=torch.float64).expand(H, K, K)
    q_HKD = eye_HKD if attention.q is None else attention.q.weight.view(H, K, D)
    k_HKD = eye_HKD if attention.k is None else attention.k.weight.view(H, K, D)
    if attention.key_heads is not None:
        k_HKD = torch.stack([q_HKD[head] for head in attention.key_heads])
    return Definition(
        q_HKD=q_HKD + update_of(attention.q_update),
        k_HKD=k_HKD + update_of(attention.k_update),
        v_HKD=attention.v.weight.view(H, K, D),
        o_DD=attention.o.weight,
        m_H=0 * ones_H if attention.shift_H is None else 1 / (1 + (-attention.shift_H).exp()),
        factor_H=ones_H if attention.gain_H is None else attention.gain_H.exp(),
        core_HKK=eye_HKK if attention.core_HKK is None else attention.core_HKK,
    )


def update_of(update: LowRank | None) -> Tensor:
    zero = torch.zeros(H, K, D, dtype=torch.float64)
    return zero if update is None else (update.up.weight @ update.down.weight).view(H, K, D)


def bold_attention(method: str) -> Attention:
    attention = Attention(SMALL, parse_method(method)).double()
    embolden(attention)
    return attention


def gradients(output: Tensor, attention: Attention) -> dict[str, Tensor]:
    weights_BTD = torch.randn(output.shape, dtype=torch.float64, generator=generator_for(0, "loss"))
    names, parameters = zip(*attention.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad((output * weights_BTD).sum(), parameters), strict=True))


@pytest.mark.parametrize("method", VARIETY)
def test_outputs_and_gradients_are_those_of_the_definition(method: str) -> None:
    attention = bold_attention(method)
    ours, theirs = attention(X_BTD), definition_of(attention)(X_BTD)
    assert relative_error(ours, theirs) < TOLERANCE
    expected = gradients(theirs, attention)
    for name, gradient in gradients(ours, attention).items():
        assert relative_error(gradient, expected[name]) < 1e-10, name


@pytest.mark.parametrize("method", ["baseline", "oelm-core+rank=2", "oelm-q+shift+gain", "baseline+rolled+shift+core"])
def test_a_wrong_definition_disagrees(method: str) -> None:
    attention = bold_attention(method)
    output, right = attention(X_BTD), definition_of(attention)
    wrong = [
        replace(right, scale=1.0),
        replace(right, q_HKD=right.k_HKD, k_HKD=right.q_HKD),
        replace(right, q_HKD=0 * right.q_HKD),
        replace(right, k_HKD=right.k_HKD.roll(1, dims=0)),
        replace(right, k_HKD=right.k_HKD + 0.01),
        replace(right, v_HKD=right.v_HKD.roll(1, dims=0)),
    ]
    assert min(relative_error(output, twin(X_BTD)) for twin in wrong) > 1e-4


def test_a_wrong_extra_disagrees() -> None:
    attention = bold_attention("oelm-core+rank=2")
    output, right = attention(X_BTD), definition_of(attention)
    assert relative_error(output, right(X_BTD)) < TOLERANCE
    assert attention.gain_H is not None
    wrong = [
        replace(right, m_H=1 - right.m_H),
        replace(right, m_H=0 * right.m_H),
        replace(right, factor_H=attention.gain_H),
        replace(right, factor_H=torch.ones_like(right.factor_H)),
        replace(right, core_HKK=right.core_HKK.transpose(1, 2)),
        replace(right, core_HKK=torch.eye(K, dtype=torch.float64).expand(H, K, K)),
        replace(right, q_HKD=right.q_HKD - update_of(attention.q_update)),
        replace(right, k_HKD=right.k_HKD - update_of(attention.k_update)),
    ]
    assert min(relative_error(output, twin(X_BTD)) for twin in wrong) > 1e-3


def test_the_core_is_a_bilinear_form_between_the_frames() -> None:
    """score = x_h^T S_h x'_h for coordinate frames, with x_h the head's own coordinates."""
    attention = bold_attention("oelm-frame+core")
    right = definition_of(attention)
    x_D, y_D = X_BTD[0, 0], X_BTD[0, 1]
    for h in range(H):
        own = slice(h * K, h * K + K)
        explicit = x_D[own] @ right.core_HKK[h] @ y_D[own]
        assert torch.isclose(right.q_HKD[h] @ x_D @ right.core_HKK[h] @ (right.k_HKD[h] @ y_D), explicit, rtol=1e-12)
    assert relative_error(attention(X_BTD), right(X_BTD)) < TOLERANCE


# --- key shift ---


def mixed_by_loop(k_BTD: Tensor, now_H: Tensor, before_H: Tensor, *, first: str) -> Tensor:
    out = torch.empty_like(k_BTD)
    for d in range(D):
        for t in range(k_BTD.shape[1]):
            now = k_BTD[:, t, d]
            start = {"itself": now, "zero": torch.zeros_like(now), "last": k_BTD[:, -1, d]}[first]
            before = k_BTD[:, t - 1, d] if t else start
            out[:, t, d] = now_H[d // K] * now + before_H[d // K] * before
    return out


def drawn_keys() -> tuple[Tensor, Tensor, Tensor]:
    generator = generator_for(0, "keys")
    k_BTD = torch.randn(2, T, D, dtype=torch.float64, generator=generator)
    return k_BTD, *torch.rand(2, H, dtype=torch.float64, generator=generator)


def test_keys_are_mixed_with_the_key_before() -> None:
    k_BTD, now_H, before_H = drawn_keys()
    ours = mix_with_previous(k_BTD, now_H, before_H)
    assert relative_error(ours, mixed_by_loop(k_BTD, now_H, before_H, first="itself")) < TOLERANCE
    assert relative_error(ours, mixed_by_loop(k_BTD, now_H, before_H, first="zero")) > 1e-2
    assert relative_error(ours, mixed_by_loop(k_BTD, now_H, before_H, first="last")) > 1e-2  # as torch.roll would
    assert relative_error(ours, mixed_by_loop(k_BTD, before_H, now_H, first="itself")) > 1e-2


def test_mixing_continues_from_the_key_before() -> None:
    k_BTD, now_H, before_H = drawn_keys()
    whole, tail_BTD = mix_with_previous(k_BTD, now_H, before_H), k_BTD[:, 3:]
    assert torch.equal(mix_with_previous(tail_BTD, now_H, before_H, k_BTD[:, 2:3]), whole[:, 3:])
    assert not torch.allclose(mix_with_previous(tail_BTD, now_H, before_H), whole[:, 3:])


# --- one matmul ---


@pytest.mark.parametrize("frozen", [(), (0,), (0, 1), (0, 1, 2)])
def test_projecting_together_is_projecting_apart(frozen: tuple[int, ...]) -> None:
    """Values and gradients of three matrices of unlike heights; one output is not used, a frozen one gets nothing."""
    generator = generator_for(0, "matrices")
    drawn = [torch.randn(rows, D, dtype=torch.float64, generator=generator) for rows in (D, 3, 2 * D)]
    results = []
    for one_by_one in (False, True):
        x_BTD = X_BTD.clone().requires_grad_()
        weights = [w.clone().requires_grad_(index not in frozen) for index, w in enumerate(drawn)]
        if one_by_one:
            first, _, last = (x_BTD @ weight.T for weight in weights)
        else:
            first, _, last = project(x_BTD, *weights)
        (first.square().sum() + last[..., ::2].sin().sum()).backward()
        results.append([first, last, x_BTD.grad, *(weight.grad for weight in weights)])
    together, apart = results
    for ours, theirs in zip(together, apart, strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or relative_error(ours, theirs) < TOLERANCE


# --- what is neutral at init ---


@pytest.mark.parametrize(
    ("plain", "equipped"),
    [
        ("baseline", "baseline+rank=3"),
        ("oelm", "oelm+rank=3"),
        ("baseline", "baseline+gain"),
        ("baseline", "baseline+core"),
        ("oelm-frame", "oelm-lowrank"),
    ],
)
def test_low_rank_gain_and_core_change_nothing_at_init(plain: str, equipped: str) -> None:
    def first_attention(method: str) -> Tensor:
        model = built(GPT(SMALL, parse_method(method)).double(), 0)
        return model.layers[0].attention(25 * X_BTD)

    assert relative_error(first_attention(equipped), first_attention(plain)) < TOLERANCE


def test_the_low_rank_update_changes_something_once_it_is_trained() -> None:
    attention = bold_attention("baseline+rank=3")
    before = attention(X_BTD)
    for update in (attention.q_update, attention.k_update):
        assert update is not None
        was = update.up.weight.data.clone()
        update.up.weight.data.zero_()
        assert relative_error(attention(X_BTD), before) > 1e-3
        update.up.weight.data.copy_(was)


# --- what is stored ---


def test_a_frame_equals_an_explicit_identity_matrix() -> None:
    frame, explicit = bold_attention("oelm-frame"), bold_attention("baseline+shift+gain")
    with torch.no_grad():
        for name, parameter in frame.named_parameters():
            explicit.get_parameter(name).copy_(parameter)
        for matrix in (explicit.q, explicit.k):
            assert matrix is not None
            matrix.weight.copy_(torch.eye(D))
        assert relative_error(frame(X_BTD), explicit(X_BTD)) < TOLERANCE
        assert explicit.k is not None
        explicit.k.weight.copy_(torch.eye(D).roll(1, 0))
        assert relative_error(frame(X_BTD), explicit(X_BTD)) > 1e-3


@pytest.mark.parametrize(("modifier", "heads"), [("tied", [0, 1, 2, 3]), ("rolled", [0, 2, 2, 0])])
def test_shared_keys_equal_an_explicit_copy(modifier: str, heads: list[int]) -> None:
    shared, explicit = bold_attention(f"baseline+{modifier}+shift"), bold_attention("baseline+shift")
    assert shared.k is None
    with torch.no_grad():
        for name, parameter in shared.named_parameters():
            explicit.get_parameter(name).copy_(parameter)
        assert shared.q is not None
        assert explicit.k is not None
        q_HKD = shared.q.weight.view(H, K, D)
        explicit.k.weight.copy_(q_HKD[heads].flatten(0, 1))
        assert relative_error(shared(X_BTD), explicit(X_BTD)) < TOLERANCE
        other = [1, 1, 3, 3] if modifier == "rolled" else [1, 2, 3, 0]
        explicit.k.weight.copy_(q_HKD[other].flatten(0, 1))
        assert relative_error(shared(X_BTD), explicit(X_BTD)) > 1e-3


@pytest.mark.parametrize(
    ("method", "stored"),
    [("baseline", "qk"), ("oelm", "qk"), ("oelm-q", "k"), ("oelm-core", "q"), ("oelm-frame", ""), ("oelm-lowrank", "")],
)
def test_which_matrices_exist(method: str, stored: str) -> None:
    attention = bold_attention(method)
    assert "".join(side for side in "qk" if getattr(attention, side) is not None) == stored
    q_HKD, k_HKD = attention.projections()
    plain = definition_of(attention)
    assert torch.equal(q_HKD.double() + update_of(attention.q_update), plain.q_HKD)
    assert torch.equal(k_HKD.double() + update_of(attention.k_update), plain.k_HKD)
