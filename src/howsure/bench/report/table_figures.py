"""Figures of a table: ours beside the published numbers, and the curves that records keep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from howsure.bench.report.comparison import Record, Standing, Value, number
from howsure.bench.report.severity_figures import severity_figures
from howsure.evaluation.curves import GRID
from howsure.metrics import Reliability
from howsure.plots import page
from howsure.plots.figures import DASHES, INK, SERIES, canvas, reliability_figure, svg
from howsure.plots.page import Html

__all__ = ["curve_figures", "dots_figure"]


@dataclass(frozen=True)
class Curve:
    """A kind of curve: which heights of a record it draws, and what they mean."""

    name: str
    kept: str  # the key of its heights among the curves of a record
    free: str  # the free score that stands beside the methods
    across: str
    up: str
    words: str
    good: str
    mirrored: bool = False  # accuracy over what is left out, in place of error over what is answered

    def height(self, records: Sequence[Record], score: str) -> np.ndarray:
        """The mean over seeds."""
        heights: np.ndarray = np.mean([record["curves"][self.kept][score] for record in records], axis=0)
        return 1 - heights[::-1] if self.mirrored else heights


CURVES = (
    Curve(
        "roc",
        kept="roc",
        free="knn50_features",
        across="known pictures taken for unfamiliar",
        up="unfamiliar pictures found",
        words="Unfamiliar pictures found",
        good="high",
    ),
    Curve(
        "risk",
        kept="risk",
        free="top1_distance",
        across="coverage: share of queries answered",
        up="error among answers",
        words="Error among the surest answers",
        good="low",
    ),
    Curve(
        "sparsification",
        kept="risk",
        free="top1_distance",
        across="share of queries left out, the most doubtful first",
        up="accuracy of the rest",
        words="Sparsification: accuracy without the most doubtful",
        good="high",
        mirrored=True,
    ),
)


def dots_figure(found: Standing, name: str) -> Html:
    """One column: a dot for our mean, its line one standard deviation long to each side, a diamond for the printed."""
    column = found.table.columns[name]
    lines = [line for line in found.lines if line.kind == "method" and (value := line.values[name]) and _has(value)]
    figure, axes = canvas(f"{column.words}, {column.better} is good", "")
    figure.set_size_inches(5, 1.1 + 0.36 * len(lines))
    for place, line in enumerate(reversed(lines)):
        value = line.values[name]
        if value.mean is not None:
            axes.errorbar(value.mean, place, xerr=value.deviation or 0, fmt="o", color=SERIES[0], markersize=6)
        if value.published:
            axes.plot(number(value.published), place, "D", color=SERIES[1], markersize=6, fillstyle="none")
    axes.set_yticks(range(len(lines)), [line.words for line in reversed(lines)])
    axes.set_ylim(-0.6, len(lines) - 0.4)
    axes.grid(axis="x", alpha=0.2, color=INK)
    told = "; ".join(f"{line.words} {_told(line.values[name])}" for line in lines)
    caption = f"{column.words}. Dots: ours, with one standard deviation over seeds. Diamonds: published."
    return page.figure(svg(figure, name=f"dots-{name}"), alt=f"{column.words}: {told}", caption=caption)


def curve_figures(found: Standing) -> list[Html]:
    """Curves of every method that keeps them, means over seeds; those of a free score stand beside them."""
    drawn = [*(_lines(found, curve) for curve in CURVES), *_reliability(found), *severity_figures(found)]
    return [figure for figure in drawn if figure]


def _lines(found: Standing, curve: Curve) -> Html | None:
    """One line a method, by its own score, and that of the free score of the points."""
    heights: dict[str, np.ndarray] = {}
    for name, row in found.table.rows.items():
        records = found.records.get(name, ())
        score = next((one for one in found.table.scores if _keeps(records, curve.kept, one)), None)
        if score:
            heights[row.words] = curve.height(records, score)
    for free in found.table.baselines:
        records = found.records.get(free.method, ())
        if free.score == curve.free and _keeps(records, curve.kept, free.score):
            heights[f"free: {free.words}"] = curve.height(records, free.score)
    if not heights:
        return None
    figure, axes = canvas(curve.across, curve.up)
    for place, (words, height) in enumerate(heights.items()):
        colour, dash = SERIES[place % len(SERIES)], DASHES[place // len(SERIES) % len(DASHES)]
        axes.plot(GRID, height, dash, color=colour, linewidth=1.5, label=f"{words}: {height.mean():.3f}")
    axes.set(xlim=(0, 1.01), ylim=(None if curve.mirrored else 0, 1.02 if curve.good == "high" else None))
    figure.set_size_inches(5, 4.8)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, labelcolor=INK, fontsize=8)
    told = "; ".join(f"{words} {height.mean():.3f}" for words, height in heights.items())
    return page.figure(
        svg(figure, name=f"{curve.name}-curves"),
        alt=f"{curve.words}, mean height of each curve: {told}",
        caption=f"{curve.words}, means over seeds; {curve.good} is good. The number is the mean height of the curve.",
    )


def _reliability(found: Standing) -> list[Html]:
    """Of the first seed of each method that has probabilities."""
    drawn = []
    for name, row in found.table.rows.items():
        kept = next((record["curves"]["reliability"] for record in found.records.get(name, ()) if _sure(record)), None)
        if kept:
            curve = Reliability(*(np.array(kept[part]) for part in ("confidence", "accuracy", "count")))
            drawn.append(
                page.figure(
                    reliability_figure(curve, name=f"reliability-{name}"),
                    alt=f"Reliability of {row.words}: share right against probability, {len(curve.count)} bins",
                    caption=f"{row.words}: P(the nearest neighbour is right), first seed. Bars: 95 % intervals.",
                )
            )
    return drawn


def _sure(record: Record) -> bool:
    return bool(record.get("curves", {}).get("reliability"))


def _keeps(records: Sequence[Record], kind: str, score: str) -> bool:
    return bool(records) and all(score in record.get("curves", {}).get(kind, {}) for record in records)


def _has(value: Value) -> bool:
    return (value.mean is not None and math.isfinite(value.mean)) or bool(value.published)


def _told(value: Value) -> str:
    return f"{value.ours}, published {value.published or 'nothing'}"
