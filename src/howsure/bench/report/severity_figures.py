"""Curves against severity: how a method fares, and what it says about it, as pictures get worse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from howsure.bench.report.comparison import Record, Standing
from howsure.plots import page
from howsure.plots.figures import DASHES, INK, SERIES, canvas, svg
from howsure.plots.page import Html

__all__ = ["severity_figures"]

DRAWN = {
    "recall_at_1": ("recall@1", "Corrupted queries with a clean picture of their class nearest"),
    "ambiguity.rank": ("mean place of the doubt", "Doubt: place among all pictures, clean to worst, from 0 to 1"),
    "ambiguity.r_auroc": ("R-AUROC", "Wrong answers foreseen by the doubt"),
    "ambiguity.auroc": ("AUROC", "Corrupted pictures told from clean ones by the doubt"),
    "novelty.auroc": ("AUROC", "Corrupted pictures told from clean ones by the novelty"),
}
OWN = "ambiguity"


def severity_figures(found: Standing) -> list[Html]:
    """A figure a number, a line a method and, for doubts, a line a free score; severity 0 is clean."""
    drawn = (_figure(found, name, up, what) for name, (up, what) in DRAWN.items())
    return [figure for figure in drawn if figure]


def _figure(found: Standing, name: str, up: str, what: str) -> Html | None:
    rows = [
        (row.words, records, _own(records, name, found.table.scores))
        for method, row in found.table.rows.items()
        if (records := found.records.get(method, ()))
    ]
    if name.startswith(OWN):
        rows += [
            (f"free: {free.words}", found.records.get(free.method, ()), name.replace(OWN, free.score, 1))
            for free in found.table.baselines
        ]
    lines = {words: _mean(records, kept) for words, records, kept in rows if _keeps(records, kept)}
    if not lines:
        return None
    figure, axes = canvas("severity, 0 is clean", up)
    for place, (words, heights) in enumerate(lines.items()):
        colour, dash = SERIES[place % len(SERIES)], DASHES[place // len(SERIES) % len(DASHES)]
        axes.plot(range(len(heights)), heights, dash, color=colour, linewidth=1.5, marker=".", label=words)
    axes.set_xticks(range(len(heights)))
    figure.set_size_inches(5, 4.8)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, labelcolor=INK, fontsize=8)
    told = "; ".join(f"{words} {_number(heights[1])} to {_number(heights[-1])}" for words, heights in lines.items())
    return page.figure(
        svg(figure, name=f"severity-{name.replace('.', '-')}"),
        alt=f"{what}, from severity 1 to 5: {told}",
        caption=f"{what}; means over corruptions and over seeds, from slight to severe.",
    )


def _own(records: Sequence[Record], name: str, scores: Sequence[str]) -> str:
    """The same number of the first of these scores that the records keep."""
    names = [name.replace(OWN, score, 1) for score in scores]
    return next((one for one in names if _keeps(records, one)), name)


def _keeps(records: Sequence[Record], name: str) -> bool:
    return bool(records) and all(name in record.get("severity", {}) for record in records)


def _mean(records: Sequence[Record], name: str) -> np.ndarray:
    """Over seeds; nothing is drawn where a run has no number."""
    return np.mean(np.array([record["severity"][name] for record in records], dtype=float), axis=0)


def _number(value: float) -> str:
    return "nothing" if np.isnan(value) else f"{value:.3f}"
