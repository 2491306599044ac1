"""What the pixels of one picture alone say about how good it is: ten numbers, cheap, the same for every model.

A picture is measured at the size at which a model sees it: a large picture with slight blur is sharp once it is
reduced, and nothing is gained by enlarging a small one. Only the blocks that JPEG leaves are sought at the picture's
own size. The numbers speak of faults, not of contents: a night scene with a lamp in it is not dark, a bird before a
white wall is not overexposed, and a plain sky hides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image, ImageChops
from scipy.ndimage import find_objects, label

from howsure.data.decoding import decode
from howsure.errors import InputError

ELONGATION = 2  # of a longer picture the middle, which is what models see
CROP = 128  # pixels of the picture's own size in which blocks of JPEG are sought
GRID = 12  # blocks along the shorter side
TAILS = (0.01, 0.99)  # the darkest and the lightest part of a picture
BURNT, COLOURED, LIGHT = 253, 240, 200  # a channel at its end, one that still says something, a light one
STEP = 1 / 255
ROUNDING = STEP**2 / 6  # the mean squared step that rounding to whole levels makes


@dataclass(frozen=True)
class Measure:
    """One of the numbers, which way it goes in poor pictures (0: both), and the least spread that counts."""

    name: str
    worse: Literal[-1, 0, 1]
    least: float


MEASURES = (
    Measure("sharpness", -1, 0.1),  # log2 of the detail of one pixel against four, in the less sharp direction
    Measure("coarse_sharpness", -1, 0.1),  # of two pixels against eight
    Measure("diagonal", -1, 0.1),  # log2 of diagonal against all detail: noise has more, compressed pictures have less
    Measure("noise", 1, 0.45),  # octaves of noise above what can be seen, in the smoothest quarter of the blocks
    Measure("blockiness", 1, 0.15),  # log2 of the steps at the seams of JPEG's blocks against those inside
    Measure("exposure", 0, 0.3),  # log2 of the odds of the level halfway between darkest and lightest
    Measure("contrast", -1, 0.1),  # (lightest - darkest) / (lightest + darkest), as of Michelson
    Measure("burnt", 1, 0.01),  # share of two channels at their end, of the pixels that are not white
    Measure("patch", 1, 0.05),  # share of the largest rectangle of one level
    Measure("size", -1, 0.3),  # log2 of the shorter side
)


def measure(image: Image.Image, *, side: int) -> np.ndarray:
    """`MEASURES` of a picture, for a model whose shorter side is `side` pixels: (10,), always finite.

    >>> size = measure(Image.new("L", (640, 512)), side=256)[-1]
    >>> float(size)
    8.0
    """
    if side < 1:
        raise InputError("side", expected="at least 1 pixel", got=str(side))
    image = decode(image)
    seen = reduced(image, side)
    grey = seen.convert("L")
    levels = np.asarray(grey)
    light = np.asarray(levels, np.float32) * np.float32(STEP)
    detail, diagonal = _detail(light), _diagonal(light)
    exposure, contrast = _tones(grey)
    return np.array(
        [
            _sharpness(detail[0], detail[2]),
            _sharpness(detail[1], detail[3]),
            _octaves(diagonal) - _octaves(_slanted(light)),
            _noise(diagonal, _halved(light), max(1, _block(levels) // 2)),
            _blockiness(image),
            exposure,
            contrast,
            _burnt(seen),
            _patch(levels),
            np.log2(min(*image.size, side)),
        ]
    )


def reduced(image: Image.Image, side: int) -> Image.Image:
    """The middle of a picture, its shorter side at most `side` pixels: about what a model sees, but never enlarged."""
    short = min(image.size)
    width, height = (min(length, ELONGATION * short) for length in image.size)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    box = (left, top, left + width, top + height)
    if short <= side:
        return image.crop(box)
    size = round(width * side / short), round(height * side / short)
    return image.resize(size, Image.Resampling.BILINEAR, box=box, reducing_gap=2.0)


def _quads(light: np.ndarray) -> tuple[np.ndarray, ...]:
    """The four pixels of every square of two by two."""
    height, width = (length // 2 * 2 for length in light.shape)
    return tuple(light[row:height:2, column:width:2] for row in (0, 1) for column in (0, 1))


def _halved(light: np.ndarray) -> np.ndarray:
    a, b, c, d = _quads(light)
    return (a + b + c + d) / 4


def _diagonal(light: np.ndarray) -> np.ndarray:
    a, b, c, d = _quads(light)
    return (a - b - c + d) / 2


def _slanted(light: np.ndarray) -> np.ndarray:
    """Steps that go across as well as down: an edge along the axes is none."""
    a, b, c, d = _quads(light)
    return np.minimum(np.abs(b - a + d - c), np.abs(c - a + d - b)) / 2


def _detail(light: np.ndarray) -> np.ndarray:
    """Mean squared steps across and down, at 1, 2, 4 and 8 pixels: (4, 2)."""
    found: list[list[float]] = []
    for _ in range(4):
        if found and min(light.shape) < 4:  # too small for a coarser scale
            found.append(found[-1])
            continue
        found.append([_mean_square(np.diff(light, axis=axis)) for axis in (1, 0)])
        light = _halved(light)
    return np.array(found)


def _sharpness(fine: np.ndarray, coarse: np.ndarray) -> float:
    """In the less sharp direction; what rounding to whole levels adds is no detail."""
    return float(np.log2((np.maximum(fine - ROUNDING, 0) + ROUNDING / 16) / (coarse + ROUNDING)).min() / 2)


def _mean_square(values: np.ndarray) -> float:
    flat = values.ravel()
    return float(flat @ flat) / max(1, flat.size)


def _octaves(values: np.ndarray) -> float:
    """log2 of the root mean square."""
    return float(np.log2(_mean_square(values) + ROUNDING) / 2)


def _block(levels: np.ndarray) -> int:
    return min(*levels.shape, max(4, min(levels.shape) // GRID))


def _blocks(values: np.ndarray, block: int) -> np.ndarray:
    """(rows, block, columns, block); what is left over at the ends is left out."""
    rows, columns = (length // block for length in values.shape)
    return values[: rows * block, : columns * block].reshape(rows, block, columns, block)


def _noise(diagonal: np.ndarray, halved: np.ndarray, block: int) -> float:
    """log2 of the diagonal detail beyond what the blocks vary at twice the scale: texture does, noise averages out."""
    fine, coarse = (_blocks(values, block) for values in (diagonal, halved))
    if not fine.size:
        return 0.0
    vary = coarse.var((1, 3)).ravel()
    smoothest = np.argsort(vary)[: max(1, vary.size // 4)]
    excess = np.maximum(0, (fine * fine).mean((1, 3)).ravel() - vary)[smoothest].mean()
    return float(np.log2(np.sqrt(excess) / STEP + 4) - 2)  # less than a few levels is not seen


def _tones(grey: Image.Image) -> tuple[float, float]:
    """Exposure and contrast, of which the second stays when all light is multiplied."""
    share = np.cumsum(grey.histogram()) / (grey.width * grey.height)
    dark, light = np.searchsorted(share, TAILS) * STEP
    middle = (dark + light) / 2
    return float(np.log2((middle + STEP) / (1 - middle + STEP))), float((light - dark) / (light + dark + 4 * STEP))


def _burnt(seen: Image.Image) -> float:
    """White things are white in all channels, and one channel is at its end in any blue sky; two are when overexposed.

    In a grey picture it is a third of what is at the end, and has a gradient of as many pixels beside it: a white wall
    has none.
    """
    half = seen.reduce(2)  # noise alone may reach the end of a channel
    if seen.mode == "L":
        count = half.histogram()
        return min(sum(count[BURNT:]), sum(count[LIGHT:BURNT])) / (3 * half.width * half.height)
    red, green, blue = half.split()
    least = np.asarray(ImageChops.darker(ImageChops.darker(red, green), blue))
    # The second of three: the greater of the two lesser ones.
    second = ImageChops.lighter(ImageChops.darker(red, green), ImageChops.darker(ImageChops.lighter(red, green), blue))
    coloured = least < COLOURED
    return float((coloured & (np.asarray(second) >= BURNT)).mean() / (coloured.mean() + 0.05))


def _patch(levels: np.ndarray) -> float:
    """The largest area of blocks that all have one level, as a share of the picture, discounted unless a rectangle.

    A plain sky is none, for things stand out against it; a bar or a sticker is. White is left to `_burnt`.
    """
    blocks = _blocks(levels, _block(levels))
    low, high = blocks.min(1).min(-1), blocks.max(1).max(-1)
    flat = (low == high) & (low < BURNT)
    if not flat.any():
        return 0.0
    areas, _ = label(flat & (low == np.bincount(low[flat]).argmax()))
    sizes = np.bincount(areas.ravel())[1:]
    largest = sizes.argmax()
    height, width = (extent.stop - extent.start for extent in find_objects(areas)[largest])
    return float(sizes[largest] / low.size * (sizes[largest] / (height * width)) ** 8)


def _blockiness(image: Image.Image) -> float:
    """In the direction in which seams show less; blocks are eight pixels wide, from the corner of the picture on."""
    left, top = (max(0, length - CROP) // 16 * 8 for length in image.size)
    part = image.crop((left, top, min(image.width, left + CROP), min(image.height, top + CROP)))
    light = np.asarray(part.convert("L"), np.float32) * np.float32(STEP)
    return min(_seams(light), _seams(light.T))


def _seams(light: np.ndarray) -> float:
    """log2 of the step at a seam against those inside the blocks beside it, for the median seam."""
    step = np.abs(np.diff(light, axis=1)).mean(0) + STEP / 2
    count = len(step) // 8
    if count < 2:
        return 0.0
    blocks = step[: count * 8].reshape(count, 8)
    inside = blocks[:, 1:6].mean(1)  # decoders smear a seam into its neighbours
    return float(np.median(np.log2(blocks[:-1, 7] * 2 / (inside[:-1] + inside[1:]))))
