"""Orthogonal heads made from a pre-trained matrix."""

# H heads  K head width  D model width  E = D, or D + 1 with the bias as last column

import torch
from torch import Tensor


def qr_heads(w_HKD: Tensor) -> Tensor:
    """W_h^T = Q_h R_h with diag(R_h) > 0, and Q_h^T takes the place of W_h: Gram-Schmidt, row after row.

    The signs matter: a query row that changes its sign while its key row does not flips its part of every logit.
    """
    orthonormal_HDK, triangular_HKK = torch.linalg.qr(w_HKD.double().transpose(1, 2))
    signs_HK = torch.where(torch.diagonal(triangular_HKK, dim1=1, dim2=2) < 0, -1.0, 1.0).to(orthonormal_HDK)
    frame_HKD: Tensor = (orthonormal_HDK * signs_HK.unsqueeze(1)).transpose(1, 2)
    return frame_HKD


def polar_heads(w_HKD: Tensor) -> Tensor:
    """(W_h W_h^T)^(-1/2) W_h = U V^T with W_h = U S V^T: of all orthogonal frames the nearest to W_h."""
    u_HKK, _, v_HKD = torch.linalg.svd(w_HKD.double(), full_matrices=False)
    frame_HKD: Tensor = u_HKK @ v_HKD
    return frame_HKD


def exact_heads(q_HKE: Tensor, k_HKE: Tensor, width: int, *, equal: bool = False) -> tuple[Tensor, Tensor]:
    """Orthogonal rows that leave every logit as it is: q.k = (A q).(A^-T k) for each invertible A, and head h takes

        W_Q^T W_K = U S V^T,   A W_Q = S^(1/2) U^T,   A^-T W_K = S^(1/2) V^T,   b_q -> A b_q,   b_k -> A^-T b_k.

    Rows are orthogonal, row i of both of length sqrt(s_i). `equal` gives them one length, that of the root mean square
    of all s_i: the same directions, other logits. `width` is D; a column behind it is a bias.
    """
    reduced_HKK, of_q_HKK, of_k_HKK = _reduced(q_HKE[..., :width], k_HKE[..., :width])
    u_HKK, s_HK, vT_HKK = torch.linalg.svd(reduced_HKK)
    length_HK = (s_HK.square().mean(1, keepdim=True).sqrt().expand_as(s_HK) if equal else s_HK).sqrt().unsqueeze(2)
    # With W_Q = R_q^T F_q and W_K = R_k^T F_k, rows of F orthonormal: A = S^(1/2) U'^T R_q^-T, and so for V' and R_k.
    a_HKK = length_HK * torch.linalg.solve_triangular(of_q_HKK, u_HKK, upper=True).transpose(1, 2)
    b_HKK = length_HK * torch.linalg.solve_triangular(of_k_HKK, vT_HKK.transpose(1, 2), upper=True).transpose(1, 2)
    return a_HKK @ q_HKE.double(), b_HKK @ k_HKE.double()


def smallest_singular_share(q_HKD: Tensor, k_HKD: Tensor) -> float:
    """Of all heads the smallest s_K / s_1 of W_Q^T W_K: 0 if a head uses fewer dimensions than it has."""
    s_HK = torch.linalg.svdvals(_reduced(q_HKD, k_HKD)[0])
    return float((s_HK[:, -1] / s_HK[:, 0].clamp(min=torch.finfo(torch.float64).tiny)).min())


def _reduced(q_HKD: Tensor, k_HKD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """R_q R_k^T, R_q and R_k of W_Q^T = F_q^T R_q: it has the singular values of W_Q^T W_K in K x K numbers."""
    of_q_HKK = torch.linalg.qr(q_HKD.double().transpose(1, 2), mode="r").R
    of_k_HKK = torch.linalg.qr(k_HKD.double().transpose(1, 2), mode="r").R
    return of_q_HKK @ of_k_HKK.transpose(1, 2), of_q_HKK, of_k_HKK


def head_norms(w_HKD: Tensor) -> Tensor:
    """Root mean square of the rows' norms, for each head."""
    return w_HKD.double().square().sum(2).mean(1).sqrt()


def row_norms(w_HKD: Tensor) -> Tensor:
    """The norm of each row."""
    return w_HKD.double().square().sum(2).sqrt()
