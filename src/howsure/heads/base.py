"""What the heads share."""

from __future__ import annotations

from torch import nn


class Head(nn.Module):
    """A map from (N, M) features to an `Embedding` of dimension `dim`."""

    def __init__(self, features: int, dim: int):
        super().__init__()
        self.dim = dim

    def scale_variance(self, factor: float) -> None:
        """Multiply all variances by `factor`; nothing to do where a head has no scale of its own."""
