"""The leading part of a matrix that arrives as rows, in memory that does not grow."""

from __future__ import annotations

import torch
from torch import Tensor

from howsure.errors import InputError

__all__ = ["LowRank"]


class LowRank:
    """V diag(e) V^T, the leading `rank` eigenvectors of Σ rows^T rows, from blocks of rows of width M.

    Between blocks a quarter more than the rank is kept, so what one block leaves out can still come back. Memory is
    about 4·rank·M numbers and one block. Products are in the precision of the rows, factors in float64.

    >>> sketch = LowRank(3, rank=1)
    >>> sketch.add(torch.diag(torch.tensor([3.0, 2.0, 1.0])))
    >>> sketch.leading()[1], sketch.trace
    (tensor([9.], dtype=torch.float64), 14.0)
    """

    def __init__(self, features: int, rank: int):
        if not 1 <= rank <= features:
            raise InputError("rank", expected=f"1 to {features}, the number of features", got=str(rank))
        self.rank, self.features = rank, features
        self.trace = 0.0
        self._kept: list[Tensor] = []
        self._waiting: list[Tensor] = []

    def add(self, rows: Tensor) -> None:
        """Another block, (n, M)."""
        self.trace += float(rows.square().sum())
        self._waiting.append(rows.detach())
        if sum(map(len, self._waiting)) >= 2 * self.rank:
            self._compress()

    def leading(self) -> tuple[Tensor, Tensor]:
        """Eigenvectors (M, R) and eigenvalues (R,), largest first; R is the rank, or less if the rows have less."""
        self._compress()
        rows = self._kept[0].double()[: self.rank]
        values = rows.square().sum(1)
        kept = values > 1e-12 * values[:1]  # the largest
        return (rows[kept] / values[kept].sqrt()[:, None]).T, values[kept]

    def _compress(self) -> None:
        # The rows are rotated among themselves: their Gram matrix is as small as they are few.
        rows = torch.cat([*self._kept, *self._waiting])
        _, vectors = torch.linalg.eigh((rows @ rows.T).double())
        count = min(self.rank + max(16, self.rank // 4), len(rows))
        self._kept, self._waiting = [vectors.flip(1)[:, :count].T.to(rows.dtype) @ rows], []
