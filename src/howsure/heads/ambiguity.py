"""How wide a belief is, learned from where the picture lies and how well the weights are known there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
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
        self._folded: tuple[np.ndarray, ...] | None = None

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
        if self.training or not _plain(place) or not _plain(total):
            inputs = (_inputs(place, total) - self.centre) / self.spread
            return (self.line(inputs[:, -1:]) + self.network(inputs)).clamp(*LOG_VARIANCE).exp()
        return torch.from_numpy(self._told(place.detach().numpy(), total.detach().numpy()))

    def _told(self, place: np.ndarray, total: np.ndarray) -> np.ndarray:
        """The same by numpy, which takes a picture alone through its small arrays several times as fast."""
        if self._folded is None:
            self._folded = self._fold()
        weight, bias, second, second_bias, third, third_bias, slope, tiny = self._folded
        with np.errstate(all="ignore"):  # what is not finite is told when the belief is checked
            log = np.log(np.maximum(total, tiny))[:, None]
            hidden = np.maximum(np.concatenate([place, log], 1) @ weight + bias, 0)
            hidden = np.maximum(hidden @ second + second_bias, 0)
            log = hidden @ third + third_bias + slope * log
            return np.exp(np.minimum(np.maximum(log, LOG_VARIANCE[0]), LOG_VARIANCE[1]))

    def _fold(self) -> tuple[np.ndarray, ...]:
        """The layers, with the usual range inside the first and the line's offset in the last."""
        tensors = (*self.network.parameters(), *self.line.parameters(), self.centre, self.spread)
        parts = (tensor.detach().double().numpy() for tensor in tensors)
        weight, bias, second, second_bias, third, third_bias, line, shift, centre, spread = parts
        weight, slope = weight / spread, line[0] / spread[-1]
        bias, third_bias = bias - weight @ centre, third_bias + shift - slope * centre[-1]
        tiny = torch.finfo(self.centre.dtype).tiny
        made = weight.T, bias, second.T, second_bias, third.T, third_bias, slope, tiny
        kind = self.centre.numpy().dtype
        return tuple(np.ascontiguousarray(part, kind) for part in made)

    # Whatever writes into the layers, or moves them, undoes the folding.

    def train(self, mode: bool = True) -> Ambiguity:
        if mode or self.training:
            self._folded = None
        return super().train(mode)

    def _apply(self, *args: Any, **kwargs: Any) -> Ambiguity:
        self._folded = None
        return super()._apply(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._folded = None
        super()._load_from_state_dict(*args, **kwargs)


def _plain(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and not tensor.requires_grad and tensor.dtype != torch.bfloat16


def _inputs(place: Tensor, total: Tensor) -> Tensor:
    return torch.cat([place, total.clamp_min(torch.finfo(total.dtype).tiny).log()[:, None]], 1)
