"""The picture of `howsure bench held-out-classes`: 1,500 clothes in two dimensions, three classes held out of training.

    python benchmarks/unseen.py FILE [--structure kronecker]

The network of seed 0 is loaded from results/held-out-classes/models, which the table makes; its posterior is fitted
here, and a hundred networks are drawn from it. Needs HOWSURE_DATA.
"""

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, NullLocator

from howsure.bench.experiments.mlp import DRAWS, UNSEEN, posterior, some
from howsure.bench.plan import table_named
from howsure.data import load
from howsure.embedder import Embedder
from howsure.embeddings import Embedding
from howsure.plots.map_files import map_file, write_map
from howsure.plots.maps import LABEL_COLOURS
from howsure.plots.outlines import Outlines, map_plane, outlines
from howsure.plots.thumbnails import deviations
from howsure.posteriors import laplace

MODEL = Path(__file__).parents[1] / "results" / "held-out-classes" / "models" / "network-seed-0"
SEEN_COLOUR, UNSEEN_COLOUR, REST = "#2166ac", "#d6604d", "#b9bdc1"
BINS = 40
NEAR = 0.04  # of the width: names of classes nearer than that are stacked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a .png or .svg")
    parser.add_argument("--structure", default="kronecker", help="of the posterior")
    options = parser.parse_args()
    file, sources = map_file(options.file), table_named("held-out-classes").data
    torch.set_num_threads(1)  # the same picture on every machine with these versions
    fitted = posterior(Embedder.load(MODEL), load(sources["training"]), structure=options.structure)
    shown = some(load(sources["test"]))
    figure = unseen_figure(
        laplace.drawn(fitted, DRAWS).encode(shown), [str(label) for label in shown.labels], unseen=UNSEEN
    )
    write_map(
        file, figure, alt="Clothes in the two dimensions of a five-layer network, three classes held out of training"
    )


def unseen_figure(embedding: Embedding, labels: Sequence[str], *, unseen: Collection[str]) -> Figure:
    """Above: a map of all pictures by class, outlined at one standard deviation, and the deviations of seen and unseen.

    Below: one panel for each unseen class, the rest in grey. All maps share their axes.
    """
    names = np.asarray(labels)
    figure = Figure(figsize=(10, 8.0), layout="constrained")
    grid = figure.add_gridspec(2, 1, height_ratios=(1.45, 1))
    above, below = grid[0].subgridspec(1, 2, width_ratios=(1.5, 1)), grid[1].subgridspec(1, len(unseen))
    whole, histogram = figure.add_subplot(above[0]), figure.add_subplot(above[1])
    shapes = outlines(embedding, map_plane(embedding))
    classes = [*sorted(set(names) - set(unseen)), *unseen]
    colours = dict(zip(classes, LABEL_COLOURS, strict=False))
    for name in classes:
        draw_items(whole, shapes, names == name, colour=colours[name], marker="x" if name in unseen else "o")
        whole.plot([], [], "x" if name in unseen else "o", color=colours[name], markersize=5, label=name)
    whole.set_title("all classes; crosses: unseen in training", loc="left")
    whole.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=5)
    draw_deviations(histogram, deviations(embedding), np.isin(names, list(unseen)))
    panels = [figure.add_subplot(below[column]) for column in range(len(unseen))]
    for axes, name in zip(panels, unseen, strict=True):
        mine = names == name
        x, y = shapes.centres[~mine].T
        axes.scatter(x, y, s=3, color=REST, linewidths=0)
        draw_items(axes, shapes, mine, colour=colours[name], marker="x")
        axes.set_title(f"{name}: median deviation {np.median(deviations(embedding)[mine]):.2g}", loc="left")
    same_axes([whole, *panels], shapes)
    name_classes(whole, {name: np.median(shapes.centres[names == name], axis=0) for name in classes})
    return figure


def draw_items(axes: Axes, shapes: Outlines, rows: np.ndarray, *, colour: str, marker: str) -> None:
    """Means, and faint outlines under them."""
    outline = PolyCollection(shapes.curves[rows], facecolors="none", edgecolors=colour, linewidths=0.5, alpha=0.25)
    axes.add_collection(outline, autolim=False)
    x, y = shapes.centres[rows].T
    cross = marker == "x"
    axes.scatter(x, y, s=12 if cross else 4, marker=marker, color=colour, linewidths=0.6 * cross)


def same_axes(maps: Sequence[Axes], shapes: Outlines) -> None:
    """Around nearly all outlines: a few very wide ones do not count."""
    low, high = np.quantile(shapes.curves.min(1), 0.01, axis=0), np.quantile(shapes.curves.max(1), 0.99, axis=0)
    low, high = np.minimum(low, shapes.centres.min(0)), np.maximum(high, shapes.centres.max(0))
    edge = 0.03 * (high - low)
    for axes in maps:
        axes.set(xlim=(low[0] - edge[0], high[0] + edge[0]), ylim=(low[1] - edge[1], high[1] + edge[1]))
        axes.set(xticks=[], yticks=[], aspect="equal")


def name_classes(axes: Axes, middles: dict[str, np.ndarray]) -> None:
    """Each name above the middle of its class; names of classes that overlap are stacked."""
    low, high = axes.get_xlim()
    groups: list[tuple[np.ndarray, list[str]]] = []
    for name, middle in middles.items():
        near = [found for other, found in groups if np.linalg.norm(other - middle) < NEAR * (high - low)]
        if near:
            near[0].append(name)
        else:
            groups.append((middle, [name]))
    for (x, y), found in groups:
        side = "left" if x < low + (high - low) / 4 else "right" if x > high - (high - low) / 4 else "center"
        text = axes.annotate(
            "\n".join(found), (x, y), xytext=(0, 9), textcoords="offset points", ha=side, fontsize=9, fontweight="bold"
        )
        text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def draw_deviations(axes: Axes, values: np.ndarray, unseen: np.ndarray) -> None:
    """Histograms over a logarithmic scale, a line at each median."""
    low, high = np.quantile(values, (0.002, 0.998))
    bins = np.geomspace(low, high, BINS).tolist()
    for rows, name, colour in ((~unseen, "seen classes", SEEN_COLOUR), (unseen, "unseen classes", UNSEEN_COLOUR)):
        shown = np.clip(values[rows], low, high)
        axes.hist(shown, bins=bins, weights=np.full(len(shown), 1 / len(shown)), color=colour, alpha=0.55, label=name)
        axes.axvline(float(np.median(values[rows])), color=colour, linewidth=1.2, linestyle="--")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="standard deviation (dashed: median)", ylabel="share of pictures")
    axes.set_title("uncertainty", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


if __name__ == "__main__":
    main()
