"""An uncertainty that ranks pictures by the loss they cause (after pretrained visual uncertainties)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.compare import expected_squared_distance
from howsure.embeddings import Embedding, Point
from howsure.errors import InputError
from howsure.losses.checks import check_variance


class LossRanking(nn.Module):
    """Of two pictures, the one with the larger task loss l must be the less certain, by `gap` in h = log uncertainty.

    Disjoint random pairs of a batch pay max(0, gap - sign(l - l')(h - h')). The task loss is held fixed, so no mean
    moves for the sake of a ranking. A pair with equal losses pays `gap` and teaches nothing. The result is a rank:
    only its order means something until it is calibrated.
    """

    def __init__(self, *, gap: float = 0.1, margin: float = 1.2):
        super().__init__()
        self.gap, self.margin = gap, margin

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        variance = embedding.checked().variance  # checked here: the sign of NaN is 0, a silent tie
        check_variance(variance, embedding.family, loss="ranking", head="gaussian")
        task, paired = contrastive_by_item(embedding.mean.detach(), labels, margin=self.margin)
        rows = paired.nonzero()[:, 0]
        if len(rows) == 0 or task[rows].min() == task[rows].max():
            raise InputError(
                "batch",
                expected="items with a positive and a negative, and with different losses",
                got=f"{len(rows)} of {len(labels)} such items, all of one loss",
                fix="use class-balanced batches with three items a class or more",
            )
        half = len(rows) // 2
        order = rows[torch.randperm(len(rows)).to(rows.device)]
        first, second = order[:half], order[half : 2 * half]
        h = embedding.uncertainty.log()
        return F.relu(self.gap - torch.sign(task[first] - task[second]) * (h[first] - h[second])).mean()


def contrastive_by_item(mean: Tensor, labels: Tensor, *, margin: float = 1.2) -> tuple[Tensor, Tensor]:
    """The contrastive loss of each item, (N,), and whether it has both a positive and a negative, (N,).

    l = mean of d² over its positives + mean of max(0, margin - d²) over its negatives; 0 where there are none.

    >>> contrastive_by_item(torch.tensor([[0.0], [0.5], [1.0]]), torch.tensor([7, 7, 8]))
    (tensor([0.4500, 1.2000, 0.5750]), tensor([ True,  True, False]))
    """
    squared = expected_squared_distance(Point(mean), Point(mean))  # (N, N)
    same = labels[:, None] == labels
    positive = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    positives, negatives = positive.sum(1), (~same).sum(1)
    pull = (squared * positive).sum(1) / positives.clamp_min(1)
    push = (F.relu(margin - squared) * ~same).sum(1) / negatives.clamp_min(1)
    return pull + push, (positives > 0) & (negatives > 0)
