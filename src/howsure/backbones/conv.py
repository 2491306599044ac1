"""The papers' small convolutional networks: pictures to flat features. Heads add the last linear layer.

Where a paper rectifies and then takes the largest of four, we take the largest and rectify that: the same numbers for a
quarter of the work.
"""

from __future__ import annotations

from torch import nn


def lam_fashion(channels: int) -> nn.Module:
    """The Fashion-MNIST network of the Laplacian metric learner; 9,216 features at 28 x 28."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()
    )  # fmt: skip


def lam_cifar(channels: int) -> nn.Module:
    """The CIFAR-10 network of the Laplacian metric learner; 1,024 features at 32 x 32."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
    )  # fmt: skip


class _XavierLazyLinear(nn.LazyLinear):
    """A linear layer that takes its width from the first input, and then starts as Glorot and Bengio advise."""

    def reset_parameters(self) -> None:
        if self.in_features:
            _xavier(self)


def n_digit(channels: int) -> nn.Sequential:
    """The N-digit MNIST network of hedged instance embeddings, up to its 120 features; input 28 high, 28 N wide."""
    network = nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(6, 16, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), _XavierLazyLinear(120), nn.ReLU(),
    )  # fmt: skip
    for layer in network:
        if isinstance(layer, nn.Conv2d):
            _xavier(layer)
    return network


def n_digit_deep(channels: int) -> nn.Module:
    """The same with one more dense layer, 84 features: what helps most where a space has two dimensions."""
    last = nn.Linear(120, 84)
    _xavier(last)
    return nn.Sequential(*n_digit(channels), last, nn.ReLU())


def _xavier(layer: nn.Conv2d | nn.Linear) -> None:
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def siamese(channels: int) -> nn.Module:
    """The MNIST siamese network of the lecture, valid convolutions, up to its second dense layer."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5), nn.PReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5), nn.PReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.LazyLinear(256), nn.PReLU(), nn.Linear(256, 256), nn.PReLU(),
    )  # fmt: skip
