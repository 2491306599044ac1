"""One figure about confidence: familiar and unfamiliar pictures by how sure a model is, and the circle they lie on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from howsure.bench.centroids import Said
from howsure.bench.plots import require_matplotlib
from howsure.embeddings import Embedding
from howsure.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["confidence_figure"]

FAMILIAR, UNFAMILIAR = "#2166ac", "#d6604d"
TICKS = (0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
SHOWN = 1500  # pictures of each kind on the circle


def confidence_figure(
    said: Mapping[str, tuple[Said, Said]],
    circle: tuple[Embedding, np.ndarray, Embedding],
    *,
    names: tuple[str, str],
) -> Figure:
    """A histogram for each confidence in `said`, (familiar, unfamiliar), and the beliefs in two dimensions.

    `circle` is the familiar belief, its labels, and the unfamiliar belief. A dot is the mean of a belief: on the rim it
    is sure of its direction, at the centre it knows nothing. `names` are those of the two kinds of pictures.
    """
    familiar, labels, unfamiliar = circle
    if familiar.dim != 2 or unfamiliar.dim != 2:
        raise InputError("circle", expected="beliefs in two dimensions", got=str((familiar.dim, unfamiliar.dim)))
    require_matplotlib()
    from matplotlib.figure import Figure

    panels = len(said) + 1
    figure = Figure(figsize=(4.2 * panels, 4), layout="constrained")
    axes = figure.subplots(1, panels)
    for place, (title, (known, other)) in zip(axes, said.items(), strict=False):
        _histogram(place, title, known, other, names=names)
    _circle(axes[-1], familiar, labels, unfamiliar, names=names)
    return figure


def _histogram(axes: Axes, title: str, known: Said, other: Said, *, names: tuple[str, str]) -> None:
    """Over the log-odds, so that 0.99 and 0.9999 are not one bar; the ticks are confidences."""
    both = np.concatenate([known.log_odds, other.log_odds])
    low, high = np.quantile(both, [0.002, 0.998])
    bins = np.linspace(low, high, 50).tolist()
    for kind, name, colour in ((known, names[0], FAMILIAR), (other, names[1], UNFAMILIAR)):
        values = np.clip(kind.log_odds, bins[0], bins[-1])
        axes.hist(values, bins=bins, weights=np.full(len(values), 1 / len(values)), color=colour, alpha=0.6, label=name)
    ticks = [tick for tick in TICKS if bins[0] <= _logit(tick) <= bins[-1]]
    axes.set_xticks([_logit(tick) for tick in ticks], [f"{tick:g}" for tick in ticks], rotation=45)
    axes.set(title=title, xlabel="confidence (log-odds scale)", ylabel="share of pictures")
    axes.legend(frameon=False)


def _circle(
    axes: Axes, familiar: Embedding, labels: np.ndarray, unfamiliar: Embedding, *, names: tuple[str, str]
) -> None:
    from matplotlib.patches import Circle

    rng = np.random.default_rng(0)
    axes.add_patch(Circle((0, 0), 1, fill=False, linewidth=0.6, color="0.6"))
    places, codes = familiar.mean.numpy(), np.asarray(labels)
    rows = rng.permutation(len(places))[:SHOWN]
    axes.scatter(places[rows, 0], places[rows, 1], c=codes[rows] % 10, cmap="tab10", s=5, linewidths=0, label=names[0])
    others = unfamiliar.mean.numpy()
    rows = rng.permutation(len(others))[:SHOWN]
    axes.scatter(others[rows, 0], others[rows, 1], c="0.25", marker="x", s=7, linewidths=0.5, label=names[1])
    for code in np.unique(codes):
        # Outside the rim, at the middle of the class.
        x, y = torch.nn.functional.normalize(familiar.mean[torch.from_numpy(codes == code)].mean(0), dim=0).tolist()
        axes.annotate(str(code), (1.1 * x, 1.1 * y), ha="center", va="center", fontweight="bold")
    axes.set(title="means of the beliefs, D = 2", xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), xticks=[], yticks=[])
    axes.set_aspect("equal")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, markerscale=2)


def _logit(p: float) -> float:
    return float(np.log(p) - np.log1p(-p))
