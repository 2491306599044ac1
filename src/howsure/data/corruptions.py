"""Pictures made worse on purpose, one by one or a whole set, to see what a model does when the picture is the problem.

Every corruption takes a picture of any size in mode "L" or "RGB" and a severity from 1 to 5, and leaves size and mode
as they are. What is random comes from the given generator alone.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from PIL import Image, ImageFilter

from howsure.data.decoding import decode
from howsure.data.images import ImageSet
from howsure.data.sets.n_digit import occlude
from howsure.data.suggest import did_you_mean
from howsure.errors import InputError

SEVERITIES = range(1, 6)
NOISE = (0.08, 0.16, 0.24, 0.32, 0.40)  # standard deviation, as a share of the full range
BLUR = (0.06, 0.09, 0.12, 0.16, 0.20)  # radius, as a share of the shorter side
OCCLUSION = (0.10, 0.18, 0.26, 0.34, 0.42)  # area of the hidden rectangle, as a share of the picture
CONTRAST = (0.6, 0.42, 0.29, 0.2, 0.12)  # what is left of every pixel's distance from the mean
RESOLUTION = (0.5, 0.38, 0.27, 0.19, 0.13)  # sides of the small copy, as a share of the picture's
JPEG = (25, 15, 9, 5, 2)  # quality, out of 100
DARKNESS = (0.5, 0.37, 0.27, 0.19, 0.12)  # what is left of every value
OVEREXPOSURE = (1.6, 2.1, 2.8, 3.8, 5.0)  # what every value is multiplied by
DIGIT_SIDES = (10, 16, 20, 24, 28)  # the largest square, in pixels of a digit's 28


def corrupt(image: Image.Image, kind: str, *, severity: int, rng: np.random.Generator) -> Image.Image:
    """A corrupted copy; `kind` is a key of `CORRUPTIONS`, `severity` goes from 1 (slight) to 5 (severe).

    >>> grey = Image.new("L", (8, 8), 128)
    >>> corrupt(grey, "noise", severity=3, rng=np.random.default_rng(0)).size
    (8, 8)
    """
    if kind not in CORRUPTIONS:
        known = ", ".join(CORRUPTIONS)
        fix = did_you_mean(str(kind), list(CORRUPTIONS))
        raise InputError("corruption", expected=f"one of {known}", got=repr(kind), fix=fix)
    if severity not in SEVERITIES:
        raise InputError("severity", expected="a whole number from 1 to 5", got=repr(severity))
    return CORRUPTIONS[kind](decode(image), severity - 1, rng)


def _noise(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    pixels = np.asarray(image, float)
    noisy = pixels + rng.normal(scale=255 * NOISE[level], size=pixels.shape)
    return Image.fromarray(np.rint(noisy).clip(0, 255).astype(np.uint8))


def _blur(image: Image.Image, level: int, _rng: np.random.Generator) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(BLUR[level] * min(image.size)))


def _occlusion(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    """A rectangle with the picture's proportions, in one random grey, somewhere inside it."""
    side = OCCLUSION[level] ** 0.5
    width, height = (max(1, round(side * length)) for length in image.size)
    left, top = int(rng.integers(image.width - width + 1)), int(rng.integers(image.height - height + 1))
    pixels = np.array(image)
    pixels[top : top + height, left : left + width] = rng.integers(256)
    return Image.fromarray(pixels)


def _contrast(image: Image.Image, level: int, _rng: np.random.Generator) -> Image.Image:
    """Pulled towards the mean of each channel."""
    pixels = np.asarray(image, float)
    mean = pixels.mean((0, 1))
    return Image.fromarray(np.rint(mean + CONTRAST[level] * (pixels - mean)).astype(np.uint8))


def _resolution(image: Image.Image, level: int, _rng: np.random.Generator) -> Image.Image:
    """Averaged down to a small copy, and stretched back."""
    small = [max(1, round(RESOLUTION[level] * length)) for length in image.size]
    return image.resize((small[0], small[1]), Image.Resampling.BOX).resize(image.size, Image.Resampling.BILINEAR)


def _jpeg(image: Image.Image, level: int, _rng: np.random.Generator) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=JPEG[level])
    return decode(file.getvalue())


def _darkness(image: Image.Image, level: int, _rng: np.random.Generator) -> Image.Image:
    return _multiplied(image, DARKNESS[level])


def _overexposure(image: Image.Image, level: int, _rng: np.random.Generator) -> Image.Image:
    return _multiplied(image, OVEREXPOSURE[level])


def _multiplied(image: Image.Image, factor: float) -> Image.Image:
    table = [min(255, round(factor * value)) for value in range(256)]
    return image.point(table * len(image.getbands()))


def _digit_occlusion(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    """A black square over every digit of an N-digit picture, each of a random side."""
    pixels = np.asarray(image.convert("L"))[None]
    return Image.fromarray(occlude(pixels, occlusion_prob=1, sides=(0, DIGIT_SIDES[level]), rng=rng)[0])


CORRUPTIONS: dict[str, Callable[[Image.Image, int, np.random.Generator], Image.Image]] = {
    "noise": _noise,
    "blur": _blur,
    "occlusion": _occlusion,
    "contrast": _contrast,
    "resolution": _resolution,
    "jpeg": _jpeg,
}
KINDS = {  # and two of the light, which no table of corruptions has, and one for N-digit pictures alone
    **CORRUPTIONS,
    "darkness": _darkness,
    "overexposure": _overexposure,
    "digit-occlusion": _digit_occlusion,
}


@dataclass(frozen=True)
class Corruption:
    """A kind of `KINDS` and how severe it is, from 1 (slight) to 5 (severe)."""

    kind: str
    severity: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.severity}"


def corruption_named(text: str) -> Corruption:
    """The corruption that `kind:severity` names.

    >>> corruption_named("blur:3")
    Corruption(kind='blur', severity=3)
    """
    kind, _, severity = text.partition(":")
    if kind not in KINDS:
        fix = did_you_mean(kind, list(KINDS)) or "for example blur:3"
        raise InputError("corruption", expected=f"one of {', '.join(KINDS)}", got=repr(kind), fix=fix)
    if severity not in map(str, SEVERITIES):
        got = f"severity {severity!r}" if severity else "no severity"
        raise InputError(f"corruption {kind}", expected="a severity from 1 to 5", got=got, fix=f"for example {kind}:3")
    return Corruption(kind, int(severity))


@final
@dataclass(frozen=True, eq=False)
class CorruptedImages(ImageSet):
    """The pictures of another set, corrupted. What is random depends on the seed and the picture's id alone."""

    clean: ImageSet
    corruption: Corruption
    seed: int

    @property
    def paths(self) -> tuple[Path | None, ...]:
        """The files of the clean pictures."""
        return self.clean.paths

    def image(self, i: int) -> Image.Image:
        rng = np.random.default_rng([self.seed, *self.ids[i].encode()])
        return KINDS[self.corruption.kind](decode(self.clean.image(i)), self.corruption.severity - 1, rng)

    def _rows(self, indices: np.ndarray) -> dict[str, Any]:
        return {"clean": self.clean.subset(indices)}


def corrupted_set(images: ImageSet, corruption: Corruption, *, seed: int = 0) -> CorruptedImages:
    """The same pictures, made worse."""
    name = f"{images.name} with {corruption}"
    return CorruptedImages(name, images.ids, images.labels, images, corruption, seed)
