"""Pictures beside a map, each with a line to its embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from howsure.data import ImageSet
from howsure.embeddings import Embedding
from howsure.plots.figures import INK
from howsure.plots.outlines import Outlines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["STRIP", "add_thumbnails", "deviations", "examples_of", "name_rows", "short"]

STRIP = 0.9  # inches that a row of pictures takes
BOX = (0.84, 0.56)  # inches for a picture
PRINT = 300  # pixels an inch that are kept of a large picture
EXAMPLES = 5  # pictures in a row
NEAR, WORDS = 8, 12  # points between map and picture, and for a caption


def deviations(embedding: Embedding) -> np.ndarray:
    """One standard deviation of each item, as if it were the same in every dimension, (N,)."""
    return np.sqrt(embedding.uncertainty.detach().double().numpy() / embedding.dim)


def examples_of(embedding: Embedding, labels: Sequence[str] | None) -> tuple[np.ndarray, np.ndarray]:
    """The most and the least certain items, each most extreme of its class, none twice."""
    order = np.argsort(deviations(embedding), kind="stable")
    names = np.arange(len(order)) if labels is None else np.asarray(labels)
    most, least = (
        ranked[np.sort(np.unique(names[ranked], return_index=True)[1])][:EXAMPLES] for ranked in (order, order[::-1])
    )
    return most, least[~np.isin(least, most)]


def short(label: str) -> str:
    """A label on one line, or its end where it is long: labels tend to differ there.

    >>> short("spam"), short("a very long name of a class")
    ('spam', '… of a class')
    """
    line = " ".join(label.split())
    return line if len(line) <= 12 else f"…{line[-11:]}"


def add_thumbnails(
    axes: Axes,
    images: ImageSet,
    captions: Sequence[str],
    rows: Sequence[np.ndarray],
    *,
    shapes: Outlines,
    colours: np.ndarray,
    before: Outlines | None,
) -> None:
    """The first row of items above the map, the second below, from left to right as they lie in it, with lines to them.

    A cross marks where an item lay `before`.
    """
    for items, side in zip(rows, (1, -1), strict=True):
        centres = {item: shapes.centres[shapes.items == item] for item in items}
        for slot, item in enumerate(sorted(items, key=lambda item: float(centres[item][:, 0].mean()))):
            at = ((slot + 0.5) / len(items), max(side, 0))
            _show(axes, images.image(int(item)), captions[item], colour=tuple(colours[item]), at=at, side=side)
            _lead(axes, shapes, item, at=at)
            if before is not None:
                old = before.centres[before.items == item]
                axes.plot(*old.T, "x", markersize=5, markeredgewidth=1.3, color=INK, zorder=6)


def name_rows(axes: Axes) -> None:
    """Captions of the two rows, at the map whose embeddings chose them."""
    for side, words in ((1, "most certain"), (-1, "least certain")):
        _text(axes, words, (0, max(side, 0)), offset=(-4, 36 * side * STRIP), ha="right", va="center", rotation=90)


def _show(
    axes: Axes,
    image: Image.Image,
    caption: str,
    *,
    colour: tuple[float, ...],
    at: tuple[float, float],
    side: int,
) -> None:
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    small = image.convert("RGB")
    small.thumbnail((round(PRINT * BOX[0]), round(PRINT * BOX[1])))  # makes none larger
    picture = np.asarray(small)
    zoom = 72 * min(BOX[0] / picture.shape[1], BOX[1] / picture.shape[0])
    half = zoom * picture.shape[0] / 2
    middle = side * (NEAR + half) + (WORDS if side > 0 else 0)  # a caption is under its picture, on either side
    frame = {"edgecolor": colour, "linewidth": 1.8, "facecolor": "none"}
    shown = AnnotationBbox(
        OffsetImage(picture, zoom=zoom, interpolation="nearest"),
        at,
        xybox=(0, middle),
        xycoords="axes fraction",
        boxcoords="offset points",
        pad=0,
        bboxprops=frame,
        annotation_clip=False,
    )
    axes.add_artist(shown)
    _text(axes, caption, at, offset=(0, middle - half - 3), ha="center", va="top")


def _lead(axes: Axes, shapes: Outlines, item: int, *, at: tuple[float, float]) -> None:
    from matplotlib.patches import Polygon

    line = {"arrowstyle": "-", "color": INK, "linewidth": 0.6, "alpha": 0.6, "shrinkA": 0, "shrinkB": 0}
    for i in np.flatnonzero(shapes.items == item):
        outline = Polygon(shapes.curves[i], closed=shapes.closed, fill=False, edgecolor=INK, linewidth=1.1, zorder=4)
        axes.add_patch(outline)
        axes.annotate("", xy=tuple(shapes.centres[i]), xytext=at, textcoords="axes fraction", arrowprops=line, zorder=4)


def _text(axes: Axes, words: str, at: tuple[float, float], *, offset: tuple[float, float], **look: Any) -> None:
    axes.annotate(
        words,
        at,
        xycoords="axes fraction",
        xytext=offset,
        textcoords="offset points",
        fontsize=8,
        color=INK,
        annotation_clip=False,
        parse_math=False,  # a label may have dollars
        **look,
    )
