"""A table in a few lines and one picture, for a page that has little room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from howsure.bench.report.comparison import Comparison, Line, Value
from howsure.bench.report.table_figures import draw_dots
from howsure.bench.report.text_table import heading, markdown_table
from howsure.plots.figures import require_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["summary", "summary_figure"]

OURS, PUBLISHED = "#2166ac", "#d6604d"


def summary(found: Comparison) -> str:
    """Markdown: the methods that were run and the columns that the table names, the published number in brackets."""
    names, lines = found.table.summary, _run(found)
    seeds = sorted({value.seeds for line in lines for value in line.values.values() if value.seeds})
    counts = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
    under = f"{found.table.title}: means over {counts} seeds, in brackets what was published. {found.verdicts()}."
    return markdown_table(found, names, lines, cell=_cell) + f"\n\n{under[0].upper()}{under[1:]}\n"


def summary_figure(found: Comparison) -> Figure:
    """The same as dots, a panel for each column: ours with one standard deviation, the published as a diamond."""
    require_matplotlib()
    from matplotlib.figure import Figure

    names, lines = found.table.summary, _run(found)
    figure = Figure(figsize=(2 * len(names) + 1.8, 1.1 + 0.34 * len(lines)), layout="constrained")
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        draw_dots(axes, [line.values[name] for line in lines], colours=(OURS, PUBLISHED))
        axes.set_title(heading(found, name), loc="left", fontsize=10)
        axes.locator_params(axis="x", nbins=4)
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    panels[0].set_yticks(range(len(lines)), [line.words for line in lines])
    panels[0].set_ylim(len(lines) - 0.4, -0.6)  # the first row above
    panels[0].plot([], [], "o", color=OURS, label="ours")
    panels[0].plot([], [], "D", color=PUBLISHED, fillstyle="none", label="published")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _run(found: Comparison) -> list[Line]:
    """Methods with a record."""
    return [line for line in found.lines if line.kind == "method" and any(v.seeds for v in line.values.values())]


def _cell(value: Value) -> str:
    ours = "-" if value.mean is None else f"{value.mean:.3f}"
    return f"{ours} ({value.published.split()[0].removeprefix('0')})" if value.published else ours
