"""Uploads become pixels and nothing else: no file that came in is ever kept or sent back."""

from __future__ import annotations

import base64
import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from howsure import data
from howsure.data import ImageSet, corrupt, decode
from howsure.errors import DataError, HowsureError

__all__ = ["Picture", "Recent", "data_url", "degraded", "picture_of", "png", "read_picture"]

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
    """The picture made worse on purpose, by kind and severity, 0 for not at all; the same each time."""
    for kind, severity in severities.items():
        if severity:
            image = corrupt(image, kind, severity=severity, rng=np.random.default_rng(0))
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
    """The last few pictures that were asked about, under a name made of their pixels."""

    def __init__(self, budget: int = BUDGET):
        self._budget, self._kept = budget, OrderedDict[str, bytes]()
        self._turn = threading.Lock()

    def keep(self, image: Image.Image) -> str:
        """Its name."""
        content = png(image, KEPT)
        name = hashlib.sha256(content).hexdigest()
        with self._turn:
            self._kept[name] = content
            self._kept.move_to_end(name)
            while sum(map(len, self._kept.values())) > self._budget:
                self._kept.popitem(last=False)
        return name

    def get(self, name: str) -> bytes | None:
        """None if it was too long ago."""
        with self._turn:
            return self._kept.get(name)


class Sources:
    """Pictures of items that came from a set, such as digits, and not from files of their own."""

    def __init__(self) -> None:
        self._sets: dict[str, tuple[ImageSet, dict[str, int]] | None] = {}

    def image(self, source: str, name: str) -> Image.Image | None:
        """The picture; None where the set, or the picture, is no longer there."""
        if source not in self._sets:
            try:
                images = data.load(source)
                self._sets[source] = images, {known: row for row, known in enumerate(images.ids)}
            except HowsureError:
                self._sets[source] = None
        found = self._sets[source]
        row = found[1].get(name) if found else None
        return found[0].image(row) if found and row is not None else None


def picture_of(name: str, metadata: Mapping[str, Any], sources: Sources) -> bytes | None:
    """A thumbnail of an item, from where the gallery says that its picture is; None if there is none to be had."""
    path, source = metadata.get("path"), metadata.get("source")
    try:
        if isinstance(path, str):
            return png(decode(Path(path)), THUMBNAIL)
        image = sources.image(source, name) if isinstance(source, str) else None
        return png(image, THUMBNAIL) if image else None
    except DataError:
        return None
