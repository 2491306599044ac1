"""The leading part of a matrix that arrives as rows, in memory that does not grow."""

from __future__ import annotations

from itertools import accumulate, combinations_with_replacement, pairwise

import torch
from torch import Tensor

from howsure.errors import InputError


class LowRank:
    """V diag(e) V^T, the leading `rank` eigenvectors of Σ rows^T rows, from blocks of rows of width M.

    Between blocks a quarter more than the rank is kept, so what one block leaves out can still come back. Memory is
    about 4·rank·M numbers and one block. Products are in the precision of the rows, factors in float64.

    >>> sketch = LowRank(3, rank=1)
    >>> sketch.add(torch.diag(torch.tensor([3.0, 2.0, 1.0])))
    >>> sketch.leading()[1]
    tensor([9.], dtype=torch.float64)
    """

    def __init__(self, features: int, rank: int):
        if not 1 <= rank <= features:
            raise InputError("rank", expected=f"1 to {features}, the number of features", got=str(rank))
        self.rank, self.features = rank, features
        self._kept: list[Tensor] = []
        self._waiting: list[Tensor] = []

    def add(self, rows: Tensor) -> None:
        """Another block, (n, M)."""
        self._waiting.append(rows.detach())
        if sum(map(len, self._waiting)) >= 2 * self.rank:
            self._compress()

    def leading(self) -> tuple[Tensor, Tensor]:
        """Eigenvectors (M, R) and eigenvalues (R,), largest first; R is the rank, or less if the rows have less."""
        # What was kept is not taken for orthogonal this time: rounding has gathered.
        self._kept, self._waiting = [], [*self._kept, *self._waiting]
        self._compress()
        rows = self._kept[0].double()[: self.rank]
        values = rows.square().sum(1)
        kept = values > 1e-12 * values[:1]  # the largest
        return (rows[kept] / values[kept].sqrt()[:, None]).T, values[kept]

    def _compress(self) -> None:
        # The rows are rotated among themselves: their Gram matrix is as small as they are few.
        blocks = [*self._kept, *self._waiting]
        _, vectors = torch.linalg.eigh(_lower_gram(blocks, orthogonal=len(self._kept)))
        count = min(self.rank + max(16, self.rank // 4), len(vectors))
        turns = vectors.flip(1)[:, :count].T.to(blocks[0].dtype).split([len(block) for block in blocks], 1)
        kept = turns[0] @ blocks[0]
        for turn, block in zip(turns[1:], blocks[1:], strict=True):
            kept.addmm_(turn, block)
        self._kept, self._waiting = [kept], []


def _lower_gram(blocks: list[Tensor], *, orthogonal: int) -> Tensor:
    """The lower half of rows rows^T, all that `eigh` reads; the rows within the first blocks are orthogonal."""
    ends = [0, *accumulate(map(len, blocks))]
    spans = [slice(*pair) for pair in pairwise(ends)]
    gram = torch.zeros(ends[-1], ends[-1], dtype=torch.float64, device=blocks[0].device)
    for i, j in combinations_with_replacement(range(len(blocks)), 2):
        known = i == j < orthogonal
        product = torch.linalg.vecdot(blocks[i], blocks[i]).diag() if known else blocks[j] @ blocks[i].T
        gram[spans[j], spans[i]] = product.to(gram.dtype)
    return gram
