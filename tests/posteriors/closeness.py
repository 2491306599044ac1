"""Tensors that should be equal up to rounding. (torch's own assert_close takes seconds to import.)"""

import numpy as np
import torch
from torch import Tensor


def assert_close(found: Tensor, expected: Tensor, *, rtol: float | None = None, atol: float | None = None) -> None:
    assert found.shape == expected.shape
    double = found.dtype == torch.float64
    np.testing.assert_allclose(
        found.detach().numpy(),
        expected.detach().numpy(),
        rtol=rtol if rtol is not None else (1e-7 if double else 2e-6),
        atol=atol if atol is not None else (1e-9 if double else 1e-5),
    )
