"""How wide a belief is, learned from where the picture lies and how well the weights are known there."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["Ambiguity"]

HIDDEN = 64
LOG_VARIANCE = (-14.0, 8.0)


class Ambiguity(nn.Module):
    """log v' = a + b log v + f(u, log v), the same in every dimension; u the place, v its total variance so far.

    A posterior knows how far the weights can move a picture, not what it means to be there. At the border between two
    classes mates are far away, whoever looks. f is a small network, which begins as 0.
    """

    centre: Tensor
    spread: Tensor

    def __init__(self, dim: int):
        super().__init__()
        self.register_buffer("centre", torch.zeros(dim + 1))
        self.register_buffer("spread", torch.ones(dim + 1))
        layers = (nn.Linear(dim + 1, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
        self.network = nn.Sequential(*layers)
        self.line = nn.Linear(1, 1)

    def start(self, place: Tensor, total: Tensor, *, variance: float) -> None:
        """Take the usual range of the inputs from these, and begin with one variance for all."""
        inputs = _inputs(place, total)
        self.centre.copy_(inputs.mean(0))
        self.spread.copy_(inputs.std(0).clamp_min(1e-6))
        for zero in (*self.network[-1].parameters(), self.line.weight):
            nn.init.zeros_(zero)
        nn.init.constant_(self.line.bias, math.log(variance))

    def forward(self, place: Tensor, total: Tensor) -> Tensor:
        """(N, D) places and (N,) total variances to (N, 1) variances of one dimension."""
        inputs = (_inputs(place, total) - self.centre) / self.spread
        return (self.line(inputs[:, -1:]) + self.network(inputs)).clamp(*LOG_VARIANCE).exp()


def _inputs(place: Tensor, total: Tensor) -> Tensor:
    return torch.cat([place, total.clamp_min(torch.finfo(total.dtype).tiny).log()[:, None]], 1)
