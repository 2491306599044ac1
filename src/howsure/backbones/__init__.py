"""Pictures to features: the papers' small networks, a small ResNet, pretrained ones, or any of yours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from howsure.backbones.conv import lam_cifar, lam_fashion, n_digit, n_digit_deep, siamese
from howsure.backbones.frozen import remembering
from howsure.backbones.mlp import mlp
from howsure.backbones.pretrained import PRETRAINED, Pretrained
from howsure.backbones.resnet import resnet
from howsure.errors import InputError

__all__ = [
    "BACKBONES",
    "PRETRAINED",
    "Pretrained",
    "build_backbone",
    "evaluating",
    "feature_count",
    "remembering",
    "start_backbone",
]

BACKBONES: dict[str, Callable[[int], nn.Module]] = {
    "lam-fashion": lam_fashion,
    "lam-cifar": lam_cifar,
    "n-digit": n_digit,
    "n-digit-deep": n_digit_deep,
    "siamese": siamese,
    "mlp": mlp,
    "resnet": resnet,
} | {name: entry.network for name, entry in PRETRAINED.items()}


def build_backbone(name: str, shape: tuple[int, int, int]) -> nn.Module:
    """The network of that name for pictures of `shape` = (channels, height, width)."""
    if name not in BACKBONES:
        raise InputError("backbone", expected=" or ".join(BACKBONES), got=repr(name))
    backbone = BACKBONES[name](shape[0])
    feature_count(backbone, shape)  # gives lazy layers their size
    # A third less time for a training step on processors; torch's types do not know this argument.
    backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return backbone


def start_backbone(name: str, backbone: nn.Module) -> None:
    """Give a new network its pretrained weights, if it has any; most start at random."""
    if name not in PRETRAINED:
        return
    try:
        backbone.load_state_dict(PRETRAINED[name].state())
    except RuntimeError as error:
        raise InputError(
            f"backbone {name}",
            expected="pictures of three channels, as its pretrained weights",
            got=str(error).splitlines()[-1].strip(),
            fix="set channels = 3: grey pictures are read as colour too",
        ) from error


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; then every layer is in its own mode again."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes.items():  # one by one: some layers may be frozen on purpose
            module.training = training


def feature_count(backbone: nn.Module, shape: tuple[int, int, int]) -> int:
    """How many features a network gives for pictures of `shape`, found by trying it on an empty picture."""
    device = next((p.device for p in backbone.parameters()), torch.device("cpu"))
    try:
        with evaluating(backbone):
            features = backbone(torch.zeros(1, *shape, device=device))
    except RuntimeError as error:
        raise InputError(
            "backbone",
            expected=f"a network that takes pictures of {shape[0]} x {shape[1]} x {shape[2]}",
            got=str(error).splitlines()[0],
            fix="choose another picture size or backbone",
        ) from error
    if not isinstance(features, Tensor) or features.ndim != 2 or features.shape[1] == 0:
        raise InputError(
            "backbone features",
            expected="(N, M)",
            got=str(tuple(features.shape)) if isinstance(features, Tensor) else type(features).__name__,
            fix="end the network with nn.Flatten()",
        )
    return features.shape[1]
