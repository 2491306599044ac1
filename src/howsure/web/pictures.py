"""Uploads become pixels and nothing else: no file that came in is ever kept or sent back."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from howsure import data
from howsure.data import ImageSet, corrupt, decode
from howsure.errors import DataError, HowsureError

__all__ = ["Picture", "Recent", "data_url", "degraded", "picture_in", "png", "read_picture", "thumbnail_of"]

KEPT, SHOWN, THUMBNAIL = 1024, 320, 128  # pixels of the longer side
BUDGET = 64 * 2**20  # bytes of pictures that are kept in case of feedback


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture of a request: what it was called, and its pixels."""

    name: str
    image: Image.Image


def read_picture(name: str, content: bytes, *, max_pixels: int) -> Picture:
    """The pixels of an upload; `DataError` with the name if there are none."""
    name = Path(name.replace("\\", "/")).name[:200] or "picture"
    try:
        return Picture(name, decode(content, max_pixels=max_pixels))
    except DataError as error:
        raise DataError(name, expected="a picture", got=error.got) from error


def degraded(image: Image.Image, severities: Mapping[str, int]) -> Image.Image:
    """The picture made worse on purpose, by corruption and severity, 0 for not at all; the same each time."""
    for corruption, severity in severities.items():
        if severity:
            image = corrupt(image, corruption, severity=severity, rng=np.random.default_rng(0))
    return image


def png(image: Image.Image, side: int) -> bytes:
    """A PNG, made smaller where its longer side has more pixels than `side`."""
    if max(image.size) > side:
        image = image.copy()
        image.thumbnail((side, side))
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()


def data_url(image: Image.Image) -> str:
    """For a page that shows what was looked at."""
    return "data:image/png;base64," + base64.b64encode(png(image, SHOWN)).decode()


class Recent:
    """The last few queries as PNG, under a name made of their pixels. One thread writes, others may read."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}  # oldest first

    def keep(self, image: Image.Image) -> str:
        """Its name."""
        content = png(image, KEPT)
        name = hashlib.sha256(content).hexdigest()
        kept = {known: other for known, other in self._kept.items() if known != name} | {name: content}
        while sum(map(len, kept.values())) > BUDGET:
            del kept[next(iter(kept))]
        self._kept = kept
        return name

    def get(self, name: str) -> bytes | None:
        """None if it was too long ago."""
        return self._kept.get(name)


def picture_in(file: Path) -> bytes:
    """What a file shows, for a page; `DataError` if it is no picture."""
    return png(decode(file), SHOWN)


def thumbnail_of(name: str, metadata: Mapping[str, Any]) -> bytes | None:
    """A thumbnail of an item, from its file or from the set that it came from; None if there is none."""
    path, source = metadata.get("path"), metadata.get("source")
    try:
        if isinstance(path, str):
            return png(decode(Path(path)), THUMBNAIL)
        images = _source(source) if isinstance(source, str) else None
        return png(images.image(images.ids.index(name)), THUMBNAIL) if images and name in images.ids else None
    except DataError:
        return None


@lru_cache(maxsize=8)
def _source(name: str) -> ImageSet | None:
    """A set by name, such as digits; None where it is no longer there."""
    try:
        return data.load(name)
    except HowsureError:
        return None
