"""Pictures through the model of a row: a map, box plots of its uncertainty, and the most and least certain ones.

Numbers come from records alone; these need the model and the pictures, and are left out where one of them is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from howsure.backbones import remembering
from howsure.bench.plan import Cell, Table
from howsure.bench.work import FEATURES, Work
from howsure.data import ImageSet
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, point_estimates
from howsure.errors import DataError
from howsure.neighbours import neighbours
from howsure.plots import page
from howsure.plots.figures import INK, SERIES, canvas, svg
from howsure.plots.maps import View, embedding_map, map_rows
from howsure.plots.page import Html

__all__ = ["illustrate"]

TEST, OOD, SHOWN = 2_000, 500, 11  # test and OOD pictures that are encoded; pictures on a sheet
WHISKERS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Sample:
    """Test pictures with their embeddings, whether their nearest neighbour is right, and embeddings of OOD ones."""

    images: ImageSet
    embedding: Embedding
    right: np.ndarray
    ood: Embedding


def illustrate(table: Table, folder: Path) -> dict[str, Html]:
    """A part of a page for every row whose model of the first seed is below `folder`, by the words of the row."""
    if not {"test", "unfamiliar"} <= set(table.data):
        return {}
    drawn: dict[str, Html] = {}
    for name in table.methods:
        work = Work(table, Cell(name, table.seeds[:1]), folder)
        model = folder / "models" / work.cell.name
        if not (model / "card.json").exists():
            continue
        try:
            test, ood = _some(work.pictures("test"), TEST), _some(work.pictures("unfamiliar"), OOD)
        except DataError:
            return {}
        with remembering(folder.parent / FEATURES):
            sample = _encoded(Embedder.load(model), test, ood)
        if (sample.embedding.uncertainty > 0).any():
            drawn[table.rows[name].words] = _part(sample, name=name)
    return drawn


def _some(images: ImageSet, count: int) -> ImageSet:
    """Evenly over the set."""
    return images.subset(range(0, len(images), max(1, len(images) // count)))


def _encoded(embedder: Embedder, test: ImageSet, ood: ImageSet) -> Sample:
    embedding = embedder.encode(test)
    points, labels = point_estimates(embedding), np.array(test.labels)
    near = neighbours(points, points, leave_one_out=True, depth=1).positions[:, 0]
    return Sample(test, embedding, labels[near] == labels, embedder.encode(ood))


def _part(sample: Sample, *, name: str) -> Html:
    rows = map_rows(sample.images.labels)
    labels = [str(sample.images.labels[row]) for row in rows]
    chart = svg(embedding_map([View("test pictures", sample.embedding[rows])], labels), name=f"map-{name}")
    shown = [
        page.figure(
            chart,
            alt=f"Map of {len(rows)} test pictures, each outlined at one standard deviation, coloured by class",
            caption="Test pictures in the plane of their first two principal axes, outlined at one standard deviation.",
        ),
        _boxes("ambiguity", sample, sample.embedding.uncertainty, sample.ood.uncertainty, name=name),
    ]
    if sample.embedding.novelty is not None and sample.ood.novelty is not None:
        shown.append(_boxes("novelty", sample, sample.embedding.novelty, sample.ood.novelty, name=name))
    order = np.argsort(sample.embedding.uncertainty.numpy(), kind="stable")
    sheets = [
        page.section(title, page.pictures(_picture(sample, row) for row in chosen), level=3)
        for title, chosen in (("Most certain", order[:SHOWN]), ("Least certain", order[::-1][:SHOWN]))
    ]
    return page.joined([page.figures(*shown), *sheets])


def _boxes(what: str, sample: Sample, test: Tensor, ood: Tensor, *, name: str) -> Html:
    """A score of three groups: a box from quartile to quartile with the median in it, whiskers to 5 and 95 %."""
    score = test.double().numpy()
    groups: Mapping[str, np.ndarray] = {
        "nearest neighbour right": score[sample.right],
        "nearest neighbour wrong": score[~sample.right],
        "OOD": ood.double().numpy(),
    }
    figure, axes = canvas(f"{what}, large = uncertain", "")
    figure.set_size_inches(5, 2.4)
    found = {group: np.quantile(values, WHISKERS) for group, values in groups.items() if len(values)}
    keys = ("whislo", "q1", "med", "q3", "whishi")
    boxes = [dict(zip(keys, cuts, strict=True)) | {"label": group} for group, cuts in found.items()]
    line = {"color": INK, "linewidth": 1.0}
    axes.bxp(
        boxes,
        orientation="horizontal",
        showfliers=False,
        boxprops=line,
        whiskerprops=line,
        capprops=line,
        medianprops={"color": SERIES[1], "linewidth": 2.0},
    )
    axes.invert_yaxis()
    if what == "ambiguity":
        axes.set_xscale("log")
    medians = "; ".join(f"{group}: median {cuts[2]:.3g}" for group, cuts in found.items())
    caption = f"{what.capitalize()}: median, half of the pictures in the box, nine tenths between the whiskers."
    return page.figure(svg(figure, name=f"{what}-{name}"), alt=f"{what.capitalize()}, {medians}", caption=caption)


def _picture(sample: Sample, row: int) -> Html:
    label, uncertainty = str(sample.images.labels[row]), float(sample.embedding.uncertainty[row])
    wrong = "" if sample.right[row] else ", nearest is wrong"
    caption = f"{label} {uncertainty:.2g}{wrong}"
    return page.picture(sample.images.image(int(row)), alt=f"{label}{wrong}", caption=caption)
