"""The pairs of a batch as one signed graph: its size is that of the batch, however many pairs there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from howsure.errors import InputError

Variant = Literal["pos", "psd", "fix", "full"]


@dataclass(frozen=True, eq=False)
class PairGraph:
    """How often items a and b of a batch were drawn together, as `positive` and as `negative` pairs: (B, B) each.

    Both are symmetric with an empty diagonal. The loss they stand for is Σ |z_a - z_b|²/2 over positive pairs, minus
    the same over negative ones; with W = positive - negative its Hessian is Lap(W) ⊗ I.

    >>> PairGraph.from_labels(torch.tensor([0, 0, 1])).laplacian("pos")
    tensor([[ 1., -1.,  0.],
            [-1.,  1.,  0.],
            [ 0.,  0.,  0.]], dtype=torch.float64)
    """

    positive: Tensor
    negative: Tensor

    @classmethod
    def from_labels(cls, labels: Tensor) -> PairGraph:
        """Every pair of a batch once."""
        same = labels[:, None] == labels
        other = ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        return cls((same & other).double(), (~same).double())

    @classmethod
    def from_mined(cls, found: Sequence[Tensor], size: int) -> PairGraph:
        """What a miner gives for a batch of `size`: triplets (a, p, n), or pairs (a, p, a, n); doubles count twice."""
        if len(found) not in (3, 4):
            raise InputError("mined", expected="triplets or pairs: 3 or 4 index tensors", got=str(len(found)))
        anchor, positive, negative = found[0], found[1], found[-1]
        return cls(_counts(anchor, positive, size), _counts(found[2] if len(found) == 4 else anchor, negative, size))

    def count(self, variant: Variant) -> float:
        """How many pairs a variant looks at, doubles included."""
        looked_at = self.positive if variant == "pos" else self.positive + self.negative
        return float(looked_at.sum()) / 2

    def within(self, distance: Tensor, margin: float) -> PairGraph:
        """Without the negative pairs at a (B, B) `distance` of `margin` or more: their loss is flat."""
        return PairGraph(self.positive, self.negative * (distance < margin))

    def signed(self, variant: Variant) -> Tensor:
        """The weights that a variant sums over: the positive pairs alone, or positive minus negative."""
        if variant not in get_args(Variant):
            raise InputError("variant", expected=" or ".join(get_args(Variant)), got=repr(variant))
        return self.positive if variant == "pos" else self.positive - self.negative

    def laplacian(self, variant: Variant) -> Tensor:
        """The (B, B) Hessian of the loss in one coordinate of z, in float64.

        | variant | matrix | |
        |---|---|---|
        | `pos` | Lap(positive) | never negative |
        | `full` | Lap(positive) - Lap(negative) | indefinite |
        | `psd` | `full` with its negative eigenvalues set to 0 | never negative |
        | `fix` | the diagonal of `full`: each item sees the others held still | any sign |

        Of all pairs of a batch with several classes, `psd` leaves nothing: an item has more negatives than positives.
        Mine as many negatives as positives, or keep those `within` a margin.
        """
        weights = self.signed(variant)
        degree = torch.diag(weights.sum(1))
        if variant == "fix":
            return degree
        return clipped(degree - weights) if variant == "psd" else degree - weights


def clipped(matrix: Tensor) -> Tensor:
    """The nearest symmetric matrix without negative eigenvalues."""
    values, vectors = torch.linalg.eigh(matrix)
    rounding = 1e-12 * values.abs().max() * len(values)
    return (vectors * torch.where(values > rounding, values, 0)) @ vectors.T


def _counts(first: Tensor, second: Tensor, size: int) -> Tensor:
    counts = torch.zeros(size, size, dtype=torch.float64, device=first.device)
    one = torch.ones(len(first), dtype=torch.float64, device=first.device)
    counts.index_put_((first, second), one, accumulate=True)
    return (counts + counts.T).fill_diagonal_(0)  # an item paired with itself has no distance to bend
