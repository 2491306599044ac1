"""The comparison with a published table, as text for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from howsure.bench.report.comparison import Comparison, Line, Value

__all__ = ["RULE", "heading", "markdown", "markdown_table", "notes", "plain", "shown_lines"]

RULE = (
    "Ours: mean ± standard deviation over seeds. A published number is reached where our mean, rounded to as many "
    "digits as were printed, equals it, and beaten where it is better."
)
MARKS = {
    "beaten": "+",
    "reached": "=",
    "not reached": "-",
    "not run": "?",
    "settled by it": "~",
    "other data": "~",
}


def plain(found: Comparison) -> str:
    """Two tables for a terminal: the published columns with what was printed under each of our numbers, and others."""
    parts = [found.table.title, f"published: {found.table.source}"]
    if printed := found.published_columns():
        legend = "under ours the published number: + beaten, = reached, - not reached, ? not run, ~ no verdict"
        parts += ["", _aligned(_grid(found, printed)), legend]
    if further := found.further_columns():
        parts += ["", "without published numbers", _aligned(_grid(found, further))]
    parts += ["", found.verdicts()]
    parts += [f"{name} is {condition}" for name, condition in found.settled.items()]
    return "\n".join(parts)


def markdown(found: Comparison) -> str:
    """A page of Markdown: both tables, every convention, and the notes."""
    table = found.table
    parts = [f"# {table.title}", f"Published: {table.source}.", f"{found.verdicts()}.", RULE]
    for title, columns in (
        ("Beside the published numbers", found.published_columns()),
        ("Further columns", found.further_columns()),
    ):
        if columns:
            lines = shown_lines(found, columns)
            parts += [f"## {title}", markdown_table(found, columns, lines, cell=_markdown_cell)]
    parts += ["## What the columns are", _conventions(found), "## Notes"]
    parts.append("\n".join(f"- {note}" for note in notes(found)))
    return "\n\n".join(parts) + "\n"


def notes(found: Comparison) -> list[str]:
    """What a reader of the numbers must know."""
    listed = list(found.table.notes)
    listed += [f"{line.words}: {line.note}" for line in found.lines if line.note]
    listed += [f"The condition {name} is {condition}." for name, condition in found.settled.items()]
    runs = [f"{found.table.rows[name].words} {len(kept)}" for name, kept in found.runs().items()]
    return [*listed, f"Runs: {', '.join(runs)}."]


def shown_lines(found: Comparison, columns: Sequence[str]) -> list[Line]:
    """The rows that have a number in these columns."""
    return [
        line
        for line in found.lines
        if any((value := line.values.get(name)) and (value.mean is not None or value.published) for name in columns)
    ]


def heading(found: Comparison, name: str) -> str:
    """The words of a column, with the direction that is good."""
    column = found.table.columns[name]
    return f"{column.words} {'↑' if column.better == 'high' else '↓'}"


def _grid(found: Comparison, columns: Sequence[str]) -> list[list[str]]:
    grid = [["", *(heading(found, name) for name in columns)]]
    for line in shown_lines(found, columns):
        values = [line.values.get(name, Value()) for name in columns]
        grid.append([line.words, *(value.ours for value in values)])
        if any(value.published for value in values):
            grid.append(["", *(f"{value.published} {MARKS.get(value.verdict, '')}".strip() for value in values)])
    return grid


def _aligned(grid: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    lines = (
        "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (zip(line, widths, strict=True) for line in grid)
    )
    return "\n".join(line.rstrip() for line in lines)


def markdown_table(
    found: Comparison, columns: Sequence[str], lines: Iterable[Line], *, cell: Callable[[Value], str]
) -> str:
    """A head with the direction that is good, and a row for each line."""
    rows = [["", *(heading(found, name) for name in columns)], ["---", *["---:"] * len(columns)]]
    rows += [[line.words, *(cell(line.values.get(name, Value())) for name in columns)] for line in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _markdown_cell(value: Value) -> str:
    return f"{value.ours} ({value.published}: {value.verdict})" if value.published else value.ours


def _conventions(found: Comparison) -> str:
    shown = [*found.published_columns(), *found.further_columns()]
    columns = {name: found.table.columns[name] for name in shown}
    return "\n".join(f"- {column.words}: {column.convention}" for column in columns.values())
