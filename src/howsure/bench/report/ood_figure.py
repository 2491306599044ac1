"""One figure about kinds never seen: where they fall among those that were learned, and how unsure the model is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.plots.figures import require_matplotlib
from howsure.plots.maps import LABEL_COLOURS
from howsure.plots.outlines import Outlines, map_plane, outlines
from howsure.plots.thumbnails import deviations

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["unseen_figure"]

FAMILIAR, UNFAMILIAR, REST = "#2166ac", "#d6604d", "#b9bdc1"
BINS = 40
NEAR = 0.04  # of the width: kinds nearer than that are at one place


def unseen_figure(belief: Embedding, labels: Sequence[str], *, unseen: Collection[str]) -> Figure:
    """Above: a map of all pictures by kind, outlined at one standard deviation, and the deviations of seen and unseen.

    Below: one panel for each kind never seen, the rest in grey. All maps share their axes.
    """
    names = np.asarray(labels)
    missing = [kind for kind in unseen if kind not in names]
    if missing or not unseen or set(names) <= set(unseen):
        got = f"without {', '.join(missing)}" if missing else f"{len(unseen)} of {len(set(names))} kinds"
        raise InputError("labels", expected="pictures of every unseen kind, and of others", got=got)
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8.0), layout="constrained")
    grid = figure.add_gridspec(2, 1, height_ratios=(1.45, 1))
    above, below = grid[0].subgridspec(1, 2, width_ratios=(1.5, 1)), grid[1].subgridspec(1, len(unseen))
    whole, spread = figure.add_subplot(above[0]), figure.add_subplot(above[1])
    shapes = outlines(belief, map_plane(belief))
    kinds = [*sorted(set(names) - set(unseen)), *unseen]
    colours = dict(zip(kinds, LABEL_COLOURS, strict=False))
    for kind in kinds:
        _places(whole, shapes, names == kind, colour=colours[kind], marker="x" if kind in unseen else "o")
        whole.plot([], [], "x" if kind in unseen else "o", color=colours[kind], markersize=5, label=kind)
    whole.set_title("all kinds; crosses: never seen in training", loc="left")
    whole.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=5)
    _deviations(spread, deviations(belief), np.isin(names, list(unseen)))
    panels = [figure.add_subplot(below[place]) for place in range(len(unseen))]
    for axes, kind in zip(panels, unseen, strict=True):
        mine = names == kind
        x, y = shapes.centres[~mine].T
        axes.scatter(x, y, s=3, color=REST, linewidths=0)
        _places(axes, shapes, mine, colour=colours[kind], marker="x")
        axes.set_title(f"{kind}: median deviation {np.median(deviations(belief)[mine]):.2g}", loc="left")
    _same_axes([whole, *panels], shapes)
    _name_kinds(whole, {kind: np.median(shapes.centres[names == kind], axis=0) for kind in kinds})
    return figure


def _places(axes: Axes, shapes: Outlines, rows: np.ndarray, *, colour: str, marker: str) -> None:
    """Means, and faint outlines under them."""
    from matplotlib.collections import PolyCollection

    outline = PolyCollection(shapes.curves[rows], facecolors="none", edgecolors=colour, linewidths=0.5, alpha=0.25)
    axes.add_collection(outline, autolim=False)
    x, y = shapes.centres[rows].T
    cross = marker == "x"
    axes.scatter(x, y, s=12 if cross else 4, marker=marker, color=colour, linewidths=0.6 * cross)


def _same_axes(maps: Sequence[Axes], shapes: Outlines) -> None:
    """Around nearly all outlines: a few very wide ones shall not rule."""
    low, high = np.quantile(shapes.curves.min(1), 0.01, axis=0), np.quantile(shapes.curves.max(1), 0.99, axis=0)
    low, high = np.minimum(low, shapes.centres.min(0)), np.maximum(high, shapes.centres.max(0))
    edge = 0.03 * (high - low)
    for axes in maps:
        axes.set(xlim=(low[0] - edge[0], high[0] + edge[0]), ylim=(low[1] - edge[1], high[1] + edge[1]))
        axes.set(xticks=[], yticks=[], aspect="equal")


def _name_kinds(axes: Axes, middles: dict[str, np.ndarray]) -> None:
    """Each name above the middle of its kind; names of kinds that lie on each other are stacked."""
    from matplotlib.patheffects import withStroke

    low, high = axes.get_xlim()
    groups: list[tuple[np.ndarray, list[str]]] = []
    for kind, middle in middles.items():
        near = [found for place, found in groups if np.linalg.norm(place - middle) < NEAR * (high - low)]
        if near:
            near[0].append(kind)
        else:
            groups.append((middle, [kind]))
    for (x, y), found in groups:
        side = "left" if x < low + (high - low) / 4 else "right" if x > high - (high - low) / 4 else "center"
        text = axes.annotate(
            "\n".join(found), (x, y), xytext=(0, 9), textcoords="offset points", ha=side, fontsize=9, fontweight="bold"
        )
        text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def _deviations(axes: Axes, values: np.ndarray, foreign: np.ndarray) -> None:
    """Histograms over a logarithmic scale, a line at each median."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = np.quantile(values, (0.002, 0.998))
    bins = np.geomspace(low, high, BINS).tolist()
    for rows, name, colour in ((~foreign, "seen kinds", FAMILIAR), (foreign, "unseen kinds", UNFAMILIAR)):
        shown = np.clip(values[rows], low, high)
        axes.hist(shown, bins=bins, weights=np.full(len(shown), 1 / len(shown)), color=colour, alpha=0.55, label=name)
        axes.axvline(float(np.median(values[rows])), color=colour, linewidth=1.2, linestyle="--")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="standard deviation (dashed: median)", ylabel="share of pictures")
    axes.set_title("how unsure", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
