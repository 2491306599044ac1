"""A whole set made worse: the same ids and labels, every picture corrupted when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from PIL import Image

from howsure.data.corruptions import CORRUPTIONS
from howsure.data.decoding import decode, is_plain
from howsure.data.images import ImageSet
from howsure.data.sets.n_digit import occlude
from howsure.data.suggest import did_you_mean
from howsure.errors import InputError

__all__ = ["KINDS", "SEVERITIES", "CorruptedImages", "Corruption", "corrupted_set", "corruption_named"]

SEVERITIES = range(1, 6)
DIGIT_SIDES = (10, 16, 20, 24, 28)  # the largest square, in pixels of a digit's 28


def _digit_occlusion(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    """A black square over every digit of an N-digit picture, each of a random side."""
    pixels = np.asarray(image.convert("L"))[None]
    return Image.fromarray(occlude(pixels, occlusion_prob=1, sides=(0, DIGIT_SIDES[level]), rng=rng)[0])


KINDS: dict[str, Callable[[Image.Image, int, np.random.Generator], Image.Image]] = {
    **CORRUPTIONS,
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
    """What `kind:severity` means.

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
        """Where the clean pictures lie."""
        return self.clean.paths

    def image(self, i: int) -> Image.Image:
        """Picture i, corrupted."""
        image = self.clean.image(i)
        rng = np.random.default_rng([self.seed, *self.ids[i].encode()])
        plain = image if is_plain(image) else decode(image)
        return KINDS[self.corruption.kind](plain, self.corruption.severity - 1, rng)

    def _rows(self, indices: np.ndarray) -> dict[str, Any]:
        return {"clean": self.clean.subset(indices)}


def corrupted_set(images: ImageSet, corruption: Corruption, *, seed: int = 0) -> CorruptedImages:
    """The same pictures, made worse."""
    name = f"{images.name} with {corruption}"
    return CorruptedImages(name, images.ids, images.labels, images, corruption, seed)
