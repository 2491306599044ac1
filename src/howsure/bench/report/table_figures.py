"""Figures of a table: ours beside the published numbers, and the curves of its records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from howsure.bench.report.comparison import Comparison, Record, Value, number
from howsure.evaluation.curves import GRID
from howsure.metrics import Reliability
from howsure.plots import page
from howsure.plots.figures import DASHES, INK, SERIES, canvas, reliability_figure, svg
from howsure.plots.page import Html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["curve_figures", "dots_figure", "draw_dots"]


@dataclass(frozen=True)
class Curve:
    """Which heights of a record are drawn, and what they mean."""

    name: str
    key: str  # of its heights among the curves of a record
    free: str  # the training-free score that is drawn too
    across: str
    up: str
    title: str
    good: str
    mirrored: bool = False  # accuracy over the share left out, in place of error over coverage

    def height(self, records: Sequence[Record], score: str) -> np.ndarray:
        """The mean over seeds."""
        heights = np.mean([record["curves"][self.key][score] for record in records], axis=0)
        return 1 - heights[::-1] if self.mirrored else heights


CURVES = (
    Curve(
        "roc",
        key="roc",
        free="knn50_features",
        across="false positive rate: known pictures taken for OOD",
        up="true positive rate: OOD pictures detected",
        title="ROC of OOD detection",
        good="high",
    ),
    Curve(
        "risk",
        key="risk",
        free="top1_distance",
        across="coverage: share of queries answered",
        up="error among answers",
        title="Risk-coverage curve",
        good="low",
    ),
    Curve(
        "sparsification",
        key="risk",
        free="top1_distance",
        across="share of queries left out, the most uncertain first",
        up="accuracy of the rest",
        title="Sparsification curve",
        good="high",
        mirrored=True,
    ),
)
OWN = "ambiguity"
SEVERITY = {  # metrics against severity: the axis, and the title
    "recall_at_1": ("recall@1", "Recall@1 of corrupted queries among clean pictures"),
    "ambiguity.rank": ("mean rank", "Mean rank of the uncertainty among all pictures, clean to severest, from 0 to 1"),
    "ambiguity.r_auroc": ("R-AUROC", "Failure prediction by the uncertainty"),
    "ambiguity.auroc": ("AUROC", "Detection of corrupted pictures by the uncertainty"),
    "novelty.auroc": ("AUROC", "Detection of corrupted pictures by the novelty"),
}


def dots_figure(found: Comparison, name: str) -> Html:
    """One column: our means with one standard deviation to each side, and diamonds for the published numbers."""
    column = found.table.columns[name]
    lines = [line for line in found.lines if line.kind == "method" and _has(line.values[name])]
    figure, axes = canvas(f"{column.words}, {column.better} is good", "")
    figure.set_size_inches(5, 1.1 + 0.36 * len(lines))
    draw_dots(axes, [line.values[name] for line in lines], colours=SERIES[:2])
    axes.set_yticks(range(len(lines)), [line.words for line in lines])
    axes.set_ylim(len(lines) - 0.4, -0.6)  # the first row above
    axes.grid(axis="x", alpha=0.2, color=INK)
    values = "; ".join(
        f"{line.words} {line.values[name].ours}, published {line.values[name].published or 'nothing'}" for line in lines
    )
    caption = f"{column.words}. Dots: ours, with one standard deviation over seeds. Diamonds: published."
    return page.figure(svg(figure, name=f"dots-{name}"), alt=f"{column.words}: {values}", caption=caption)


def draw_dots(axes: Axes, values: Sequence[Value], *, colours: Sequence[str]) -> None:
    """A dot for each of ours and a diamond for each published value, in rows 0, 1, ..."""
    for row, value in enumerate(values):
        if value.mean is not None:
            axes.errorbar(value.mean, row, xerr=value.deviation or 0, fmt="o", color=colours[0], markersize=6)
        if value.published:
            axes.plot(number(value.published), row, "D", color=colours[1], markersize=6, fillstyle="none")


def curve_figures(found: Comparison) -> list[Html]:
    """Curves of every method that keeps them, means over seeds, and those of training-free scores."""
    drawn = [
        *(_curve(found, curve) for curve in CURVES),
        *_reliability(found),
        *(_severity(found, name, up, title) for name, (up, title) in SEVERITY.items()),
    ]
    return [figure for figure in drawn if figure]


def _curve(found: Comparison, curve: Curve) -> Html | None:
    """One line a method, by its own score, and that of the training-free score."""

    def keeps(records: Sequence[Record], score: str) -> bool:
        return bool(records) and all(score in record.get("curves", {}).get(curve.key, {}) for record in records)

    heights: dict[str, np.ndarray] = {}
    for name, row in found.table.rows.items():
        records = found.records.get(name, ())
        score = next((one for one in found.table.scores if keeps(records, one)), None)
        if score:
            heights[row.words] = curve.height(records, score)
    for free in found.table.baselines:
        records = found.records.get(free.method, ())
        if free.score == curve.free and keeps(records, free.score):
            heights[f"training-free: {free.words}"] = curve.height(records, free.score)
    if not heights:
        return None
    named = {f"{words}: {height.mean():.3f}": height for words, height in heights.items()}
    figure, axes = _line_chart(named, GRID, across=curve.across, up=curve.up)
    axes.set(xlim=(0, 1.01), ylim=(None if curve.mirrored else 0, 1.02 if curve.good == "high" else None))
    means = "; ".join(f"{words} {height.mean():.3f}" for words, height in heights.items())
    return page.figure(
        svg(figure, name=f"{curve.name}-curves"),
        alt=f"{curve.title}, mean height of each curve: {means}",
        caption=f"{curve.title}, means over seeds; {curve.good} is good. The number is the mean height of the curve.",
    )


def _severity(found: Comparison, name: str, up: str, title: str) -> Html | None:
    """A metric against severity, 0 is clean: a line a method and, for scores, a line a training-free score."""

    def keeps(records: Sequence[Record], key: str) -> bool:
        return bool(records) and all(key in record.get("severity", {}) for record in records)

    rows = []
    for method, row in found.table.rows.items():
        records = found.records.get(method, ())
        names = [name.replace(OWN, score, 1) for score in found.table.scores]
        rows.append((row.words, records, next((one for one in names if keeps(records, one)), name)))
    if name.startswith(OWN):
        rows += [
            (f"training-free: {free.words}", found.records.get(free.method, ()), name.replace(OWN, free.score, 1))
            for free in found.table.baselines
        ]
    lines = {  # nothing is drawn where a run has no number
        words: np.mean(np.array([record["severity"][key] for record in records], dtype=float), axis=0)
        for words, records, key in rows
        if keeps(records, key)
    }
    if not lines:
        return None
    severities = range(max(map(len, lines.values())))
    figure, axes = _line_chart(lines, severities, across="severity, 0 is clean", up=up, marker=".")
    axes.set_xticks(severities)
    ends = "; ".join(f"{words} {_number(heights[1])} to {_number(heights[-1])}" for words, heights in lines.items())
    return page.figure(
        svg(figure, name=f"severity-{name.replace('.', '-')}"),
        alt=f"{title}, from severity 1 to 5: {ends}",
        caption=f"{title}; means over corruptions and over seeds, from slight to severe.",
    )


def _line_chart(
    lines: Mapping[str, np.ndarray], x: Sequence[float] | np.ndarray, *, across: str, up: str, marker: str = ""
) -> tuple[Figure, Axes]:
    """A line for each name, by colour and dash, and a legend below."""
    figure, axes = canvas(across, up)
    for row, (words, heights) in enumerate(lines.items()):
        colour, dash = SERIES[row % len(SERIES)], DASHES[row // len(SERIES) % len(DASHES)]
        axes.plot(x, heights, dash, color=colour, linewidth=1.5, marker=marker, label=words)
    figure.set_size_inches(5, 4.8)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, labelcolor=INK, fontsize=8)
    return figure, axes


def _reliability(found: Comparison) -> list[Html]:
    """Of the first seed of each method that has probabilities."""
    drawn = []
    for name, row in found.table.rows.items():
        kept = (record.get("curves", {}).get("reliability") for record in found.records.get(name, ()))
        if points := next(filter(None, kept), None):
            curve = Reliability(*(np.array(points[part]) for part in ("confidence", "accuracy", "count")))
            drawn.append(
                page.figure(
                    reliability_figure(curve, name=f"reliability-{name}"),
                    alt=f"Reliability of {row.words}: share right against probability, {len(curve.count)} bins",
                    caption=f"{row.words}: P(the nearest neighbour is right), first seed. Bars: 95 % intervals.",
                )
            )
    return drawn


def _has(value: Value) -> bool:
    return (value.mean is not None and math.isfinite(value.mean)) or bool(value.published)


def _number(value: float) -> str:
    return "nothing" if np.isnan(value) else f"{value:.3f}"
