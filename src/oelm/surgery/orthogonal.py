"""Orthogonal heads made from a pre-trained matrix."""

# H heads  K head width  D model width

import torch
from torch import Tensor


def qr_heads(w_HKD: Tensor) -> Tensor:
    """W_h^T = Q_h R_h with diag(R_h) > 0, and Q_h^T takes the place of W_h: Gram-Schmidt, row after row.

    The signs matter: a row of a query turned round against its key would turn its part of every logit round.
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


def head_norms(w_HKD: Tensor) -> Tensor:
    """Root mean square of the rows' norms, for each head."""
    return w_HKD.double().square().sum(2).mean(1).sqrt()
