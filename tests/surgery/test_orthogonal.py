import torch

from oelm.method.geometry import gram_error
from oelm.surgery.orthogonal import head_norms, polar_heads, qr_heads


def random_heads() -> torch.Tensor:
    return torch.randn(3, 4, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_both_are_orthogonal_in_each_head() -> None:
    assert gram_error(qr_heads(random_heads())) < 1e-12
    assert gram_error(polar_heads(random_heads())) < 1e-12
    assert gram_error(random_heads()) > 0.1


def test_qr_is_gram_schmidt() -> None:
    """Row i is what is left of w_i beside the rows before it, so its part along w_i is positive and row 0 keeps w_0."""
    w_HKD = random_heads()
    q_HKD = qr_heads(w_HKD)
    assert torch.allclose(q_HKD[:, 0], w_HKD[:, 0] / w_HKD[:, 0].norm(dim=1, keepdim=True))
    triangular = w_HKD @ q_HKD.transpose(1, 2)
    assert torch.allclose(triangular, triangular.tril())
    assert (triangular.diagonal(dim1=1, dim2=2) > 0).all()


def test_polar_is_nearer_than_any_other_frame() -> None:
    w_HKD = random_heads()
    nearest = (polar_heads(w_HKD) - w_HKD).square().sum((1, 2))
    generator = torch.Generator().manual_seed(1)
    others = [qr_heads(w_HKD), *(qr_heads(torch.randn(w_HKD.shape, generator=generator)) for _ in range(20))]
    turned = polar_heads(w_HKD + 0.05 * torch.randn(w_HKD.shape, generator=generator))
    assert all(((other - w_HKD).square().sum((1, 2)) > nearest).all() for other in [*others, turned])


def test_an_orthogonal_matrix_is_left_alone() -> None:
    frame_HKD = qr_heads(random_heads())
    assert torch.allclose(qr_heads(3 * frame_HKD), frame_HKD)
    assert torch.allclose(polar_heads(3 * frame_HKD), frame_HKD)


def test_head_norms() -> None:
    scaled = qr_heads(random_heads()) * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64).view(-1, 1, 1)
    assert torch.allclose(head_norms(scaled), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
