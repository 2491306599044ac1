"""From what a person gives to items: pictures in any form, arrays, embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from howsure import data
from howsure.data import ImageSet
from howsure.data.images import FileImages
from howsure.data.labels import checked_labels, paths_as_ids
from howsure.data.quality import LEAST, Quality, fit_quality
from howsure.decide.seen import Items
from howsure.embedder import Embedder, Encoded
from howsure.embeddings import Embedding, Point
from howsure.errors import InputError


def items_of(given: Any, embedder: Callable[[], Embedder] | None, *, measured: bool = False) -> Items:
    """Items as the embedder of a gallery reads them, or as they are; with `measured`, also the quality of pictures.

    The embedder is asked for where it is needed; None stands for a gallery of plain vectors.
    """
    items = data.loaded(given)
    if isinstance(items, Items):
        return items
    if isinstance(items, Embedding):
        return Items.from_embedding(items)
    if isinstance(items, ImageSet) and embedder:
        items = embedder().encode_set(items, measured=measured)
    if isinstance(items, Encoded):
        return Items.from_pictures(items.embedding, items.images, items.content, items.measures)
    shape = tuple(items.shape) if isinstance(items, (np.ndarray, Tensor)) else ()
    if embedder is None:
        if len(shape) == 2:
            return Items.from_embedding(Point.from_vectors(items))
        what, expected = "items of a gallery without a model", "a float array or tensor (N, D), or an Embedding"
        fix = "create the gallery with a model to add pictures"
    elif len(shape) == 2:
        what, expected = "items of a gallery with a model", "pictures, or an Embedding"
        fix = "wrap embeddings that its model made, as Point(tensor)"
    else:
        return Items.from_embedding(*embedder().encode_content(items, measured=measured))
    raise InputError(what, expected=expected, got=f"{type(items).__name__} {shape or ''}".strip(), fix=fix)


def labelled_items(given: Any, labels: Iterable[Any] | None, embedder: Callable[[], Embedder] | None) -> Items:
    """Items that bring their labels, or are given some; the quality of pictures is looked at."""
    given = data.loaded(given)
    if labels is None and not isinstance(given, (ImageSet, Encoded, Items)):
        raise InputError("labels", expected="one for every item", got="none", fix="give labels=...")
    if isinstance(given, ImageSet) and labels is not None:
        given, labels = replace(given, labels=tuple(checked_labels(labels, len(given)))), None
    found = items_of(given, embedder, measured=True)
    return found if labels is None else replace(found, labels=tuple(checked_labels(labels, len(found))))


def quality_of(given: Any, *, side: int, seed: int) -> Quality | None:
    """What pictures like these are like; None where there are too few, or they cannot be opened again."""
    images = data.loaded(given)
    if isinstance(images, Encoded):
        images = images.images
    elif names := _files(images):
        images = FileImages("pictures", tuple(names), (None,) * len(names), tuple(map(Path, names)))
    return fit_quality(images, side=side, seed=seed) if isinstance(images, ImageSet) and len(images) >= LEAST else None


def _files(given: Any) -> list[str]:
    """The pictures that are files, by their paths."""
    if isinstance(given, Items):
        return [path for path in given.paths if path and Path(path).is_file()]
    return paths_as_ids(given) or []
