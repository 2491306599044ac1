"""What the model of a row makes of pictures: a map, its doubt in boxes, and what it is most and least certain of.

Numbers come from records alone; these need the model and the pictures, and are left out where one of them is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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
from howsure.plots.maps import View, belief_map, map_rows
from howsure.plots.page import Html

__all__ = ["illustrate"]

PICTURES, FOREIGN, SHOWN = 2_000, 500, 11  # test pictures and unfamiliar ones that are looked at; pictures on a sheet
WHISKERS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Look:
    """Test pictures with what is believed about them, whether their nearest neighbour is right, and foreign ones."""

    images: ImageSet
    belief: Embedding
    right: np.ndarray
    foreign: Embedding


def illustrate(table: Table, folder: Path) -> dict[str, Html]:
    """A part of a page for every row whose model of the first seed is below `folder`, by the words of the row."""
    if not {"test", "unfamiliar"} <= set(table.data):
        return {}
    cells = {name: Cell(name, table.seeds[:1]) for name in table.methods}
    models = {name: folder / "models" / cell.name for name, cell in cells.items()}
    there = {name: model for name, model in models.items() if (model / "card.json").exists()}
    drawn: dict[str, Html] = {}
    for name, model in there.items():
        work = Work(table, cells[name], folder)
        try:
            test, foreign = _some(work.pictures("test"), PICTURES), _some(work.pictures("unfamiliar"), FOREIGN)
        except DataError:
            return {}
        with remembering(folder.parent / FEATURES):
            look = _look(Embedder.load(model), test, foreign)
        if (look.belief.uncertainty > 0).any():
            drawn[table.rows[name].words] = _part(look, name=name)
    return drawn


def _some(images: ImageSet, count: int) -> ImageSet:
    """Evenly over the set."""
    return images.subset(range(0, len(images), max(1, len(images) // count)))


def _look(embedder: Embedder, test: ImageSet, foreign: ImageSet) -> Look:
    belief = embedder.encode(test)
    near = neighbours(point_estimates(belief), point_estimates(belief), leave_one_out=True, depth=1).positions[:, 0]
    labels = np.array(test.labels)
    return Look(test, belief, labels[near] == labels, embedder.encode(foreign))


def _part(look: Look, *, name: str) -> Html:
    rows = map_rows(look.images.labels)
    labels = [str(look.images.labels[row]) for row in rows]
    chart = svg(belief_map([View("test pictures", look.belief[rows])], labels), name=f"map-{name}")
    shown = [
        page.figure(
            chart,
            alt=f"Map of {len(rows)} test pictures, each outlined at one standard deviation, coloured by class",
            caption="Where test pictures lie, in the plane of their greatest spread, and how firmly: one deviation.",
        ),
        _boxes("ambiguity", _doubts(look, _ambiguity), name=name),
    ]
    if look.belief.novelty is not None:
        shown.append(_boxes("novelty", _doubts(look, _novelty), name=name))
    order = np.argsort(look.belief.uncertainty.numpy(), kind="stable")
    sheets = [
        page.section(title, page.pictures(_picture(look, row) for row in chosen), level=3)
        for title, chosen in (("Most certain", order[:SHOWN]), ("Least certain", order[::-1][:SHOWN]))
    ]
    return page.joined([page.figures(*shown), *sheets])


def _ambiguity(belief: Embedding) -> np.ndarray:
    return belief.uncertainty.double().numpy()


def _novelty(belief: Embedding) -> np.ndarray:
    return np.zeros(len(belief)) if belief.novelty is None else belief.novelty.double().numpy()


def _doubts(look: Look, score: Callable[[Embedding], np.ndarray]) -> dict[str, np.ndarray]:
    ours = score(look.belief)
    return {
        "nearest neighbour right": ours[look.right],
        "nearest neighbour wrong": ours[~look.right],
        "unfamiliar": score(look.foreign),
    }


def _boxes(what: str, groups: Mapping[str, np.ndarray], *, name: str) -> Html:
    """A box from quarter to quarter with the median in it, whiskers to 5 and 95 %."""
    figure, axes = canvas(f"{what}, large = doubtful", "")
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
    told = "; ".join(f"{group}: median {cuts[2]:.3g}" for group, cuts in found.items())
    caption = f"{what.capitalize()}: median, half of the pictures in the box, nine tenths between the whiskers."
    return page.figure(svg(figure, name=f"{what}-{name}"), alt=f"{what.capitalize()}, {told}", caption=caption)


def _picture(look: Look, row: int) -> Html:
    label, doubt = str(look.images.labels[row]), float(look.belief.uncertainty[row])
    wrong = "" if look.right[row] else ", nearest is wrong"
    return page.picture(look.images.image(int(row)), alt=f"{label}{wrong}", caption=f"{label} {doubt:.2g}{wrong}")
