"""What is claimed of the projections, measured on the matrices that a built model really uses."""

# H heads  K head width  D model width

import math

import torch
from torch import Tensor


def unit_rows(w_HKD: Tensor) -> Tensor:
    """The same directions with rows of root-mean-square norm 1, in float64."""
    w_HKD = w_HKD.double()
    return w_HKD / row_norm(w_HKD)


def row_norm(w_HKD: Tensor) -> float:
    """Root mean square of the rows' norms: the gain."""
    return math.sqrt(w_HKD.double().square().sum(-1).mean().item())


def gram_error(w_HKD: Tensor) -> float:
    """max |W_h W_h^T - I| over heads, after dividing by the gain: 0 for orthogonal heads."""
    w_HKD = unit_rows(w_HKD)
    gram_HKK = w_HKD @ w_HKD.transpose(1, 2)
    return (gram_HKK - torch.eye(w_HKD.shape[1], dtype=torch.float64)).abs().max().item()


def cross_head_overlap(w_HKD: Tensor) -> float:
    """Root mean square of W_h W_g^T over h != g: 0 for a global orthogonal matrix, 1/sqrt(D) for independent heads.

    This, not the Gram error, tells head-wise from global: within each head both are orthogonal.
    """
    heads, head_width, _ = w_HKD.shape
    if heads == 1:
        return 0.0
    rows = unit_rows(w_HKD).flatten(0, 1)
    gram = (rows @ rows.T).view(heads, head_width, heads, head_width)
    across = ~torch.eye(heads, dtype=torch.bool)
    return gram.transpose(1, 2)[across].square().mean().sqrt().item()


def logit_std(q_HKD: Tensor, k_HKD: Tensor) -> float:
    """Standard deviation of the attention logits at init, for independent standard normal x and x'.

    Var[x^T M x'] = ||M||_F^2 with M = W_Q^T W_K / sqrt(K); the root of its mean over heads.
    """
    # ||W_Q^T W_K||_F^2 = <W_Q W_Q^T, W_K W_K^T>, which needs K x K matrices only.
    q_HKD, k_HKD = q_HKD.double(), k_HKD.double()
    overlap = (q_HKD @ q_HKD.transpose(1, 2)) * (k_HKD @ k_HKD.transpose(1, 2))
    return math.sqrt(overlap.sum((1, 2)).mean().item() / q_HKD.shape[1])
