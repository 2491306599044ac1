"""Maps of embeddings: pictures in a plane with their uncertainty, clean and corrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from howsure.data import ImageSet
from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.plots.figures import INK
from howsure.plots.outlines import Outlines, map_plane, outlines
from howsure.plots.thumbnails import STRIP, add_thumbnails, deviations, examples_of, name_rows, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CLASSES", "ITEMS", "View", "embedding_map", "map_rows"]

CLASSES, ITEMS = 10, 400  # more cannot be distinguished
PANEL, GAP, TITLE, FOOT = 4.8, 0.3, 0.55, 0.3  # inches: the width of a panel, between panels, above, below
# Neither pale nor dark: they must hold on white and on black.
LABEL_COLOURS = (
    *("#4a90d9", "#e07b39", "#3fa45b", "#c95fb0", "#b8942b"),
    *("#2fa5a5", "#d9534f", "#8f7be0", "#7d8c3c", "#a0705a"),
)
SURE_TO_UNSURE = ("#4a90d9", "#8f7be0", "#d25f9a", "#e8733a")


@dataclass(frozen=True, eq=False)
class View:
    """A panel: embeddings of N items, and their pictures, if some are to be shown."""

    title: str
    embedding: Embedding
    images: ImageSet | None = None


def map_rows(labels: Sequence[str | None], *, seed: int = 0) -> np.ndarray:
    """Which items to draw when there are too many: up to 10 classes by lot, and of these up to 400 items by lot.

    >>> map_rows(["a", "b", "a"])
    array([0, 1, 2])
    """
    rng = np.random.default_rng(seed)
    names = np.array([label or "" for label in labels])
    shown = rng.permutation(np.unique(names))[:CLASSES]
    return np.sort(rng.permutation(np.flatnonzero(np.isin(names, shown)))[:ITEMS])


def embedding_map(views: Sequence[View], labels: Sequence[str] | None = None) -> Figure:
    """One panel a view, all of the same items in the same order and on the same axes: the plane of the first view.

    Each embedding is outlined at one standard deviation, coloured by label, or without labels by how uncertain it is.
    Where views have pictures, each shows the same few items: above those most certain in the last view, one a class,
    below those least certain. From the second view on a cross marks where these lay in the first.
    """
    from matplotlib.figure import Figure

    _check(views, labels)
    plane = map_plane(views[0].embedding)
    shapes = [outlines(view.embedding, plane) for view in views]
    low, high = _limits(shapes)
    strip = STRIP * any(view.images is not None for view in views)
    tall = PANEL * float(np.divide(*(high - low)[::-1]))
    figure = Figure(figsize=(len(views) * (PANEL + GAP) + GAP, TITLE + tall + 2 * strip + FOOT))
    examples = examples_of(views[-1].embedding, labels)
    for number, (view, drawn, colours) in enumerate(zip(views, shapes, _colours(views, labels), strict=True)):
        left = GAP + number * (PANEL + GAP)
        axes = _panel(figure, view, (left, FOOT + strip, PANEL, tall))
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
        _draw(axes, drawn, colours, reference=shapes[0].sizes)
        _name_classes(axes, shapes[0], labels)
        if view.images is not None:
            named = zip(view.images.labels, deviations(view.embedding), strict=True)
            captions = [f"{short(name or '')} ±{deviation:#.2g}".strip() for name, deviation in named]
            before = shapes[0] if number else None
            add_thumbnails(axes, view.images, captions, examples, shapes=drawn, colours=colours, before=before)
    if strip:
        name_rows(figure.axes[-1])
    _legend(figure, by_label=labels is not None, panels=len(views), pictures=strip > 0)
    return figure


def _check(views: Sequence[View], labels: Sequence[str] | None) -> None:
    counts = {len(view.embedding) for view in views} | {len(view.images) for view in views if view.images is not None}
    if len(counts) != 1 or 0 in counts:
        got = " and ".join(map(str, sorted(counts))) or "no view"
        raise InputError("views of a map", expected="the same items in each, one or more", got=got)
    if labels is not None and len(labels) not in counts:
        raise InputError("labels of a map", expected=f"one for each of {counts.pop()} items", got=str(len(labels)))


def _limits(shapes: Sequence[Outlines]) -> tuple[np.ndarray, np.ndarray]:
    """A box around all means and most outlines, neither flat nor steep: a few very wide ones shall not rule it."""
    centres = np.concatenate([drawn.centres for drawn in shapes])
    curves = np.concatenate([drawn.curves for drawn in shapes])
    low = np.minimum(centres.min(0), np.quantile(curves.min(1), 0.03, axis=0))
    high = np.maximum(centres.max(0), np.quantile(curves.max(1), 0.97, axis=0))
    half = np.maximum((high - low) / 2, 1e-6)
    half = 1.05 * np.maximum(half, half[::-1] * (0.8, 0.6))
    return (low + high) / 2 - half, (low + high) / 2 + half


def _draw(axes: Axes, shapes: Outlines, colours: np.ndarray, *, reference: np.ndarray) -> None:
    """Uncertain embeddings first and faint, as their density is: certain ones stay visible on top."""
    from matplotlib.collections import LineCollection, PolyCollection

    order = np.argsort(-shapes.sizes, kind="stable")
    thin = np.median(reference) / np.maximum(shapes.sizes[order], 1e-12)
    crowd = min(1.0, (150 / len(order)) ** 0.5)
    rgba = colours[shapes.items[order]]
    fill, edge = rgba.copy(), rgba.copy()
    fill[:, 3] = np.clip(0.35 * thin**1.5, 0.015, 0.35) * crowd * shapes.weights[order]
    edge[:, 3] = np.clip(0.9 * thin, 0.25, 0.9) * crowd * shapes.weights[order]
    collection: Any = PolyCollection if shapes.closed else LineCollection
    width = 0.8 if shapes.closed else 1.2
    face = fill if shapes.closed else "none"
    drawn = collection(shapes.curves[order], facecolors=face, edgecolors=edge, linewidths=width)
    axes.add_collection(drawn, autolim=False)
    axes.scatter(shapes.centres[order, 0], shapes.centres[order, 1], s=3, color=rgba, linewidths=0, zorder=3)


def _colours(views: Sequence[View], labels: Sequence[str] | None) -> list[np.ndarray]:
    """(N, 4) for each view."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba_array

    if labels is not None:
        codes = np.unique(np.asarray(labels), return_inverse=True)[1]
        return [to_rgba_array(LABEL_COLOURS)[codes % len(LABEL_COLOURS)]] * len(views)
    scale = LinearSegmentedColormap.from_list("uncertainty", SURE_TO_UNSURE)
    values = [deviations(view.embedding) for view in views]
    low, high = np.quantile(np.concatenate(values), (0, 0.95))
    return [scale((deviation - low) / max(high - low, 1e-12)) for deviation in values]


def _name_classes(axes: Axes, shapes: Outlines, labels: Sequence[str] | None) -> None:
    """Each label at the median of its class, of each item's component of greatest weight."""
    if labels is None:
        return
    order = np.lexsort((-shapes.weights, shapes.items))
    heaviest = order[np.unique(shapes.items[order], return_index=True)[1]]
    names = np.asarray(labels)
    for name in np.unique(names):
        x, y = np.median(shapes.centres[heaviest][names == name], axis=0)
        middle: dict[str, Any] = {"ha": "center", "va": "center", "parse_math": False}
        axes.annotate(short(name), (x, y), color=INK, zorder=5, fontsize=12, fontweight="bold", **middle)


def _panel(figure: Figure, view: View, box: tuple[float, float, float, float]) -> Axes:
    """An empty frame at (left, bottom, width, height) inches, under its title."""
    width, height = figure.get_size_inches()
    left = box[0] / width
    axes = figure.add_axes((left, box[1] / height, box[2] / width, box[3] / height), label=view.title, facecolor="none")
    for spine in axes.spines.values():
        spine.set(color=INK, alpha=0.3, linewidth=0.8)
    middle, ninth = np.quantile(deviations(view.embedding), (0.5, 0.9))
    deviation = f"median {middle:.2g}, nine in ten below {ninth:.2g}" if ninth > 0 else "none, these are points"
    figure.text(left, 1 - 0.1 / height, view.title, va="top", color=INK, fontsize=12, fontweight="bold")
    figure.text(left, 1 - 0.34 / height, f"standard deviation: {deviation}", va="top", color=INK, fontsize=9)
    return axes


def _legend(figure: Figure, *, by_label: bool, panels: int, pictures: bool) -> None:
    parts = ["Outline: one standard deviation."]
    parts.append(
        "Label: the middle of its class" + " on the left" * (panels > 1) + "." if by_label else "Orange: uncertain."
    )
    if pictures and panels > 1:
        parts.append("Cross: where the same picture lies on the left.")
    width, height = figure.get_size_inches()
    figure.text(GAP / width, 0.08 / height, " ".join(parts), va="bottom", color=INK, fontsize=8.5)
