"""Attention beside its definition, written out token by token with explicit matrices; each comparison can fail."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from builders import LLAMA, SMALL, STYLED, built, embolden, relative_error
from oelm.base.runtime import generator_for
from oelm.config.methods import parse_method
from oelm.config.model import GPTConfig
from oelm.model.attention import Attention, LowRank
from oelm.model.blind import BlindAttention
from oelm.model.gpt import GPT
from oelm.model.projecting import add_low_rank, norm_heads, project, shift_keys

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
    scale: float
    q_bias_HK: Tensor
    k_bias_HK: Tensor
    normed: bool = False
    norm_epsilon: float = 1e-6
    turn: Callable[[Tensor, int], Tensor] = lambda x_K, t: x_K
    """Rotary positions; nothing in GPT style."""
    turns_before_shift: bool = False

    def __call__(self, x_BTD: Tensor) -> Tensor:
        return torch.stack([self.one_text(x_TD) for x_TD in x_BTD])

    def one_text(self, x_TD: Tensor) -> Tensor:
        mixed = [torch.stack([self.one_head(h, t, x_TD) for h in range(H)]).flatten() for t in range(len(x_TD))]
        return torch.stack([self.o_DD @ y_D for y_D in mixed])

    def one_head(self, h: int, t: int, x_TD: Tensor) -> Tensor:
        """sum over u <= t of softmax_u(s(t, u)) v_u."""
        q_K = self.norm(self.q_HKD[h] @ x_TD[t] + self.q_bias_HK[h])
        q_K = self.turn(q_K @ self.core_HKK[h], t)
        scores = [self.factor_H[h] * (q_K @ self.key(h, u, x_TD)) * self.scale for u in range(t + 1)]
        weights = torch.stack(scores).softmax(0)
        return torch.stack([weights[u] * (self.v_HKD[h] @ x_TD[u]) for u in range(t + 1)]).sum(0)

    def key(self, h: int, u: int, x_TD: Tensor) -> Tensor:
        """(1 - m) k_u + m k_{u-1}, with k_{-1} = k_0; then the norm; then the turn."""
        (k_K, at), (before_K, before) = ((self.k_HKD[h] @ x_TD[i] + self.k_bias_HK[h], i) for i in (u, max(0, u - 1)))
        if self.turns_before_shift:  # what a wrong order would do
            k_K, before_K = self.turn(k_K, at), self.turn(before_K, before)
        mixed_K = self.norm((1 - self.m_H[h]) * k_K + self.m_H[h] * before_K)
        return mixed_K if self.turns_before_shift else self.turn(mixed_K, u)

    def norm(self, x_K: Tensor) -> Tensor:
        """x / rms(x), where there is a norm."""
        return x_K / (sum(x * x for x in x_K) / len(x_K) + self.norm_epsilon).sqrt() if self.normed else x_K


def half_split(x_K: Tensor, t: int) -> Tensor:
    """Coordinates i and i + K/2 as a complex number, times exp(i t 10000^(-2i/K))."""
    half = len(x_K) // 2
    pairs = [(x_K[i], x_K[i + half], t * 10_000 ** (-2 * i / len(x_K))) for i in range(half)]
    first = [x * math.cos(angle) - y * math.sin(angle) for x, y, angle in pairs]
    return torch.stack([*first, *(x * math.sin(angle) + y * math.cos(angle) for x, y, angle in pairs)])


def interleaved(x_K: Tensor, t: int) -> Tensor:
    """Neighbours as pairs: another convention, for twins that must fail."""
    order = [*range(0, len(x_K), 2), *range(1, len(x_K), 2)]
    return half_split(x_K[order], t)[torch.tensor(order).argsort()]


def frame_of(attention: Attention) -> Tensor:
    """The identity's rows that each head reads: of its slice, or strided every H-th, the first K."""
    heads, head_width, width = attention.shape
    starts, step = ([*range(heads)], heads) if attention.is_strided else ([*range(0, width, width // heads)], 1)
    eye_DD = torch.eye(width, dtype=torch.float64)
    return torch.stack([eye_DD[[start + i * step for i in range(head_width)]] for start in starts])


def definition_of(attention: Attention | BlindAttention) -> Definition:
    """The same numbers, differentiable; a frame is an explicit identity and a shared key an explicit copy."""
    ones_H = torch.ones(H, dtype=torch.float64)
    v_HKD, o_DD = attention.v.weight.view(H, K, D), attention.o.weight
    if isinstance(attention, BlindAttention):  # all logits are zero
        zero_HKD, eye_HKK = torch.zeros(H, K, D, dtype=torch.float64), torch.eye(K, dtype=torch.float64).expand(H, K, K)
        zero_HK = zero_HKD[..., 0]
        return Definition(zero_HKD, zero_HKD, v_HKD, o_DD, 0 * ones_H, ones_H, eye_HKK, 1.0, zero_HK, zero_HK)
    shape = attention.shape
    eye_HKK = torch.eye(shape.head_width, dtype=torch.float64).expand(H, shape.head_width, shape.head_width)
    q_HKD = frame_of(attention) if attention.q is None else attention.q.weight.view(shape)
    k_HKD = frame_of(attention) if attention.k is None else attention.k.weight.view(shape)
    if attention.key_heads is not None:
        k_HKD = torch.stack([q_HKD[head] for head in attention.key_heads])
    zero_E = torch.zeros(H * shape.head_width, dtype=torch.float64)
    return Definition(
        q_HKD=q_HKD + update_of(attention.q_update, q_HKD),
        k_HKD=k_HKD + update_of(attention.k_update, k_HKD),
        v_HKD=v_HKD,
        o_DD=o_DD,
        m_H=0 * ones_H if attention.shift_H is None else 1 / (1 + (-attention.shift_H).exp()),
        factor_H=ones_H if attention.gain_H is None else attention.gain_H.exp(),
        core_HKK=eye_HKK if attention.core_HKK is None else attention.core_HKK,
        scale=1 / math.sqrt(shape.head_width),
        q_bias_HK=(zero_E if attention.q_bias_E is None else attention.q_bias_E).view(H, -1),
        k_bias_HK=(zero_E if attention.k_bias_E is None else attention.k_bias_E).view(H, -1),
        normed=attention.has_norm,
        turn=(lambda x_K, t: x_K) if attention.rotary is None else half_split,
    )


def update_of(update: LowRank | None, like_HKD: Tensor) -> Tensor:
    return torch.zeros_like(like_HKD) if update is None else (update.up.weight @ update.down.weight).view_as(like_HKD)


def bold_attention(method: str, layer: int = 0, config: GPTConfig = SMALL) -> Attention:
    attention = bold_any_attention(method, layer, config)
    assert isinstance(attention, Attention)
    return attention


def bold_any_attention(method: str, layer: int = 0, config: GPTConfig = SMALL) -> Attention | BlindAttention:
    parsed = parse_method(method)
    attention = BlindAttention(config) if parsed.blind else Attention(config, parsed, layer)
    embolden(attention.double())
    return attention


def gradients(output: Tensor, attention: Attention | BlindAttention) -> dict[str, Tensor]:
    weights_BTD = torch.randn(output.shape, dtype=torch.float64, generator=generator_for(0, "loss"))
    names, parameters = zip(*attention.named_parameters(), strict=True)
    found = torch.autograd.grad((output * weights_BTD).sum(), parameters, allow_unused=True)  # zero logits use no core
    return {name: gradient for name, gradient in zip(names, found, strict=True) if gradient is not None}


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize(("config", "method"), STYLED)
def test_outputs_and_gradients_are_those_of_the_definition(config: GPTConfig, method: str, layer: int) -> None:
    if layer and "strided" not in method:
        return  # the layers are alike
    attention = bold_any_attention(method, layer, config)
    ours, theirs = attention(X_BTD), definition_of(attention)(X_BTD)
    assert relative_error(ours, theirs) < TOLERANCE
    expected = gradients(theirs, attention)
    assert expected.keys() == dict(attention.named_parameters()).keys()
    for name, gradient in gradients(ours, attention).items():
        if name == "k_bias_E" and not attention.has_norm and attention.rotary is None:
            # softmax does not see what all keys have in common
            assert max(gradient.abs().max(), expected[name].abs().max()) < TOLERANCE
        else:
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
        replace(right, q_HKD=right.q_HKD - update_of(attention.q_update, right.q_HKD)),
        replace(right, k_HKD=right.k_HKD - update_of(attention.k_update, right.k_HKD)),
    ]
    assert min(relative_error(output, twin(X_BTD)) for twin in wrong) > 1e-3


@pytest.mark.parametrize("method", ["oelm-core+bias+norm+thin=4", "oelm-frame+bias+thin=4+strided", "baseline+thin=3"])
def test_a_wrong_lever_disagrees(method: str) -> None:
    attention = bold_attention(method, layer=1)
    output, right = attention(X_BTD), definition_of(attention)
    assert relative_error(output, right(X_BTD)) < TOLERANCE
    wrong = [replace(right, scale=1 / math.sqrt(K)), replace(right, normed=not right.normed)]
    if attention.q_bias_E is not None:
        wrong += [replace(right, q_bias_HK=0 * right.q_bias_HK), replace(right, q_bias_HK=right.k_bias_HK)]
    if attention.has_norm:
        wrong += [replace(right, k_bias_HK=0 * right.k_bias_HK), replace(right, norm_epsilon=1e-2)]
    if attention.is_strided:
        whole_HKD = torch.eye(D, dtype=torch.float64).view(H, K, D)[:, : attention.shape.head_width]
        wrong += [replace(right, q_HKD=whole_HKD, k_HKD=whole_HKD)]
    assert min(relative_error(output, twin(X_BTD)) for twin in wrong) > 1e-4


@pytest.mark.parametrize("method", ["baseline", "oelm-core+rank=2", "oelm-frame+core+thin=4", "oelm-core+bias+norm"])
def test_a_wrong_rotation_disagrees(method: str) -> None:
    attention = bold_attention(method, config=LLAMA)
    output, right = attention(X_BTD), definition_of(attention)
    assert relative_error(output, right(X_BTD)) < TOLERANCE
    wrong = [
        replace(right, turn=lambda x_K, t: x_K),
        replace(right, turn=interleaved),
        replace(right, turn=lambda x_K, t: half_split(x_K, t // 2)),
    ]
    if attention.shift_H is not None:
        wrong += [replace(right, turns_before_shift=True)]
    assert min(relative_error(output, twin(X_BTD)) for twin in wrong) > 1e-4


@pytest.mark.parametrize("method", ["baseline", "oelm-core+bias+norm", "oelm-lowrank"])
def test_rotary_logits_see_distances_only(method: str) -> None:
    """All positions moved by five: nothing changes. Some of them moved: it does."""
    attention = bold_attention(method, config=LLAMA)
    right = definition_of(attention)
    later = replace(right, turn=lambda x_K, t: half_split(x_K, t + 5))
    assert relative_error(later(X_BTD), right(X_BTD)) < TOLERANCE
    torn = replace(right, turn=lambda x_K, t: half_split(x_K, t + 5 * (t > 2)))
    assert relative_error(torn(X_BTD), right(X_BTD)) > 1e-4


def test_blind_attention_is_the_mean_of_the_values_so_far() -> None:
    attention = bold_any_attention("blind")
    values_BTD = X_BTD @ attention.v.weight.T
    means = torch.stack([values_BTD[:, : t + 1].mean(1) for t in range(T)], dim=1)
    assert relative_error(attention(X_BTD), means @ attention.o.weight.T) < TOLERANCE
    assert relative_error(attention(X_BTD), values_BTD @ attention.o.weight.T) > 1e-2
    later = X_BTD.clone()
    later[:, -1] += 1
    assert torch.equal(attention(later)[:, :-1], attention(X_BTD)[:, :-1]), "nothing is seen of what comes"


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


# --- low rank ---


def test_a_low_rank_update_has_the_gradients_of_its_formula() -> None:
    generator = generator_for(0, "low rank")
    y_BTE, down_BTR = (torch.randn(2, T, n, dtype=torch.float64, generator=generator).requires_grad_() for n in (D, 6))
    up_ER = torch.randn(D, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    a_BTR = down_BTR[..., 3:]  # half of the columns, as attention hands them over
    assert relative_error(add_low_rank(y_BTE, a_BTR, up_ER), y_BTE + a_BTR @ up_ER.T) < TOLERANCE
    assert torch.autograd.gradcheck(lambda y, down, up: add_low_rank(y, down[..., 3:], up), (y_BTE, down_BTR, up_ER))


# --- key shift ---


def shifted_by_loop(k_BHTK: Tensor, m_H: Tensor, *, first: str) -> Tensor:
    out = torch.empty_like(k_BHTK)
    for h in range(H):
        for t in range(k_BHTK.shape[2]):
            now = k_BHTK[:, h, t]
            start = {"itself": now, "zero": torch.zeros_like(now), "last": k_BHTK[:, h, -1]}[first]
            before = k_BHTK[:, h, t - 1] if t else start
            out[:, h, t] = (1 - m_H[h]) * now + m_H[h] * before
    return out


def drawn_heads() -> Tensor:
    """Half of the columns of rows (B, T, 2 H K), as attention hands them over."""
    rows = torch.randn(2, T, 2 * D, dtype=torch.float64, generator=generator_for(0, "keys"))
    return rows[..., D:].unflatten(-1, (H, K)).transpose(1, 2)


M_H = torch.linspace(0.1, 0.8, H, dtype=torch.float64)


def test_keys_are_mixed_with_the_key_before() -> None:
    k_BHTK = drawn_heads()
    ours = shift_keys(k_BHTK, M_H)
    assert relative_error(ours, shifted_by_loop(k_BHTK, M_H, first="itself")) < TOLERANCE
    assert relative_error(ours, shifted_by_loop(k_BHTK, M_H, first="zero")) > 1e-2
    assert relative_error(ours, shifted_by_loop(k_BHTK, M_H, first="last")) > 1e-2  # as torch.roll would
    assert relative_error(ours, shifted_by_loop(k_BHTK, 1 - M_H, first="itself")) > 1e-2


@pytest.mark.parametrize("time", [1, 2, T])
def test_mixed_keys_have_the_gradients_of_the_formula(time: int) -> None:
    k_BHTK, m_H = drawn_heads()[:, :, :time].detach().requires_grad_(), M_H.clone().requires_grad_()
    assert torch.autograd.gradcheck(shift_keys, (k_BHTK, m_H))
    before_BH1K = drawn_heads()[:, :, -1:].detach().requires_grad_()
    assert torch.autograd.gradcheck(shift_keys, (k_BHTK, m_H, before_BH1K))


def test_mixing_continues_from_the_key_before() -> None:
    k_BHTK = drawn_heads()
    whole, tail_BHTK = shift_keys(k_BHTK, M_H), k_BHTK[:, :, 3:]
    assert torch.equal(shift_keys(tail_BHTK, M_H, k_BHTK[:, :, 2:3]), whole[:, :, 3:])
    assert not torch.allclose(shift_keys(tail_BHTK, M_H), whole[:, :, 3:])


# --- norm ---


def test_heads_are_normed_each_by_itself_with_the_gradients_of_the_formula() -> None:
    epsilon = 0.1  # large, so that its place matters
    x_BHTK = drawn_heads().detach().requires_grad_()
    square_BHT1 = x_BHTK.square().mean(-1, keepdim=True)
    ours = norm_heads(x_BHTK, epsilon)
    assert relative_error(ours, x_BHTK / (square_BHT1 + epsilon).sqrt()) < TOLERANCE
    assert relative_error(ours, x_BHTK / (square_BHT1.sqrt() + epsilon)) > 1e-2
    together_B1T1 = x_BHTK.square().mean((1, 3), keepdim=True)
    assert relative_error(ours, x_BHTK / (together_B1T1 + epsilon).sqrt()) > 1e-2
    assert torch.autograd.gradcheck(lambda x: norm_heads(x, epsilon), (x_BHTK,))


def test_squares_of_half_precision_are_added_up_in_single() -> None:
    x_BHTK = torch.full((1, 1, 1, 4096), 1.0, dtype=torch.bfloat16)
    x_BHTK[..., 0] = 64.0
    exact = (x_BHTK.double() / x_BHTK.double().square().mean().sqrt()).bfloat16()
    normed = norm_heads(x_BHTK.requires_grad_(), 0.0)
    assert torch.equal(normed, exact)
    normed.sum().backward()
    assert x_BHTK.grad is not None
    assert x_BHTK.grad.dtype is torch.bfloat16


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
    assert torch.equal(q_HKD.double() + update_of(attention.q_update, plain.q_HKD), plain.q_HKD)
    assert torch.equal(k_HKD.double() + update_of(attention.k_update, plain.k_HKD), plain.k_HKD)
