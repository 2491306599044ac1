"""Tensors that should be equal up to rounding, and a dense Hessian to compare with."""

import numpy as np
import torch
from torch import Tensor

from howsure.posteriors.laplace.curvature import Curvature


def assert_close(found: Tensor, expected: Tensor, *, rtol: float | None = None, atol: float | None = None) -> None:
    """As torch's own, which takes seconds to import."""
    assert found.shape == expected.shape
    double = found.dtype == torch.float64
    np.testing.assert_allclose(
        found.detach().numpy(),
        expected.detach().numpy(),
        rtol=rtol if rtol is not None else (1e-7 if double else 2e-6),
        atol=atol if atol is not None else (1e-9 if double else 1e-5),
    )


def dense(curvature: Curvature) -> Tensor:
    """All of H, (B·D, B·D), from its definition L_ab P_a P_b / (r_a r_b)."""
    unit = curvature.unit
    across = torch.eye(unit.shape[1], dtype=unit.dtype) - unit[:, :, None] * unit[:, None, :]  # P_a
    across = across / curvature.length[:, None, None]
    return torch.einsum("ab,aik,bkj->aibj", curvature.laplacian, across, across).reshape(unit.numel(), unit.numel())
