"""A small residual network for colour pictures of 32 to 96 pixels."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


def resnet(channels: int) -> nn.Module:
    """Three stages of two residual blocks, 32-64-128 channels, mean over the last map: 128 features, 0.7 M weights.

    Pictures of more than 48 pixels are halved by the first layer, so that 64 pixels cost no more than 32.
    """
    return nn.Sequential(
        _Stem(channels, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        _Block(32, 32, 1), _Block(32, 32, 1),
        _Block(32, 64, 2), _Block(64, 64, 1),
        _Block(64, 128, 2), _Block(128, 128, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


class _Stem(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        stride = 2 if min(x.shape[-2:]) > 48 else 1
        return F.conv2d(x, self.weight, self.bias, stride=stride, padding=self.padding)


class _Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        same = stride == 1 and before == after
        self.skip = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        )

    def forward(self, x: Tensor) -> Tensor:
        return (self.body(x) + self.skip(x)).relu()
