"""Figures as inline SVG that follow the page: its text colour, its palette, its font, in light and in dark."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta

from howsure.embeddings import Embedding
from howsure.errors import HowsureError
from howsure.metrics import Reliability, RiskCoverage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Plane", "canvas", "map_figure", "reliability_figure", "require_matplotlib", "risk_coverage_figure", "svg"]

# Colours that stand for CSS variables of the page; no figure uses them for anything else.
INK = "#010203"
SERIES = ("#010a01", "#010a02", "#010a03", "#010a04")
_MEANING = {INK: "currentColor"} | {colour: f"var(--series-{i})" for i, colour in enumerate(SERIES, 1)}
DASHES = ("-", "--", "-.", ":")  # lines differ in more than colour
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "howsure",  # the same figure is the same text
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane through `centre`, to project means on."""

    centre: np.ndarray  # (D,)
    axes: np.ndarray  # (2, D)

    @classmethod
    def fit(cls, embedding: Embedding) -> Plane:
        """The first two principal axes of the means."""
        mean = embedding.mean.double().numpy()
        centre = mean.mean(0)
        axes = np.linalg.svd(mean - centre, full_matrices=False)[2][:2]
        return cls(centre, np.pad(axes, ((0, 2 - len(axes)), (0, 0))))

    def project(self, embedding: Embedding) -> np.ndarray:
        """(N, 2) coordinates of the means."""
        return (embedding.mean.double().numpy() - self.centre) @ self.axes.T


def require_matplotlib() -> None:
    """Fail now, and helpfully, rather than at the first figure."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise HowsureError("figures need matplotlib", fix="pip install 'howsure[plots]'") from error


def reliability_figure(curve: Reliability, *, name: str = "reliability") -> str:
    """The reliability diagram: observed frequency against predicted probability; on the diagonal, both agree.

    Bars are 95 % intervals of each frequency (Jeffreys).
    """
    figure, axes = canvas("predicted probability, mean of the bin", "observed frequency")
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, alpha=0.5)
    hits = curve.accuracy * curve.count
    low, high = beta.ppf([[0.025], [0.975]], hits + 0.5, curve.count - hits + 0.5)
    axes.vlines(curve.confidence, low, high, color=SERIES[0], alpha=0.6)
    sizes = 12 + 60 * curve.count / curve.count.max()
    axes.scatter(curve.confidence, curve.accuracy, s=sizes, color=SERIES[0])
    axes.set(xlim=(-0.02, 1.03), ylim=(-0.02, 1.03))
    return svg(figure, name=name)


def risk_coverage_figure(curves: Mapping[str, RiskCoverage], *, max_error: float, name: str = "risk") -> str:
    """The error among the answers when only the most certain share is answered; low is good."""
    figure, axes = canvas("coverage: share of queries answered", "error among answers")
    for (curve_name, curve), colour, dash in zip(curves.items(), SERIES, DASHES, strict=False):
        axes.plot(curve.coverage, curve.risk, dash, color=colour, linewidth=1.6, label=curve_name)
    axes.axhline(max_error, color=INK, linewidth=0.8, alpha=0.6)
    axes.annotate(
        f"tolerated: {max_error:g}", (0.01, max_error), xytext=(0, 3), textcoords="offset points", fontsize=9, color=INK
    )
    axes.set(xlim=(0, 1.01), ylim=(0, None))
    axes.legend(frameon=False, labelcolor=INK, loc="upper left", bbox_to_anchor=(0, 0.95))
    return svg(figure, name=name)


def map_figure(gallery: Embedding, labels: np.ndarray, unknown: Embedding, *, name: str = "map") -> str:
    """The gallery in the plane of its two main axes, a label at the middle of each identity; unknowns are crosses.

    Circles show one standard deviation of each embedding, where there is any.
    """
    figure, axes = canvas("first principal axis", "second principal axis")
    plane = Plane.fit(gallery)
    for embedding, colour, marker, what in ((gallery, SERIES[0], ".", "gallery"), (unknown, SERIES[1], "x", "unknown")):
        points = plane.project(embedding)
        _circles(axes, points, embedding, colour=colour)
        size = 6 if marker == "." else 22
        axes.scatter(points[:, 0], points[:, 1], s=size, marker=marker, color=colour, linewidths=0.9, label=what)
    points = plane.project(gallery)
    for label in np.unique(labels):
        x, y = np.median(points[labels == label], axis=0)
        axes.annotate(str(label), (x, y), ha="center", va="center", fontsize=16, fontweight="bold", color=INK)
    axes.set_aspect("equal", adjustable="datalim")
    axes.legend(frameon=False, labelcolor=INK, loc="upper center", ncols=2, bbox_to_anchor=(0.5, 1.1))
    return svg(figure, name=name)


def svg(figure: Figure, *, name: str) -> str:
    """The figure as an `<svg>` element that a page can hold: no fixed size, font or ink; `name` keeps its ids apart."""
    import matplotlib

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    head, body = text.split(">", 1)
    text = re.sub(r' (?:width|height)="[^"]*"', "", head) + ' aria-hidden="true">' + body
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"(font(?:-family)?: (?:(?:\w+ )?[\d.]+px )?)'[^;\"]*", r"\1system-ui, sans-serif", text)
    for colour, meaning in _MEANING.items():
        text = text.replace(colour, meaning)
    return text


def canvas(across: str, up: str) -> tuple[Figure, Axes]:
    """An empty figure in the style of the page, with words for its two axes."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(5, 4), layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlabel=across, ylabel=up)
    return figure, axes


def _circles(axes: Axes, points: np.ndarray, embedding: Embedding, *, colour: str) -> None:
    from matplotlib.collections import EllipseCollection

    width = 2 * embedding.variance.double().mean(-1).sqrt().numpy()
    if not width.any():
        return
    circles = EllipseCollection(
        width, width, np.zeros(len(width)), units="xy", offsets=points, offset_transform=axes.transData
    )
    circles.set(facecolor="none", edgecolor=colour, alpha=0.25, linewidth=0.5)
    axes.add_collection(circles)
