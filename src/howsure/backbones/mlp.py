"""The fully connected network of the Laplace paper."""

from __future__ import annotations

from itertools import pairwise

from torch import nn


def mlp(channels: int) -> nn.Module:
    """512-256-128-64 with ReLU; with a linear head these are the paper's five layers (it does not print the widths)."""
    widths = (512, 256, 128, 64)
    layers: list[nn.Module] = [nn.Flatten(), nn.LazyLinear(widths[0]), nn.ReLU()]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)
