"""The report on all tables: a page each, and one that leads to them; made of records, nothing is run.

Where models and pictures are at hand, a page also has maps, box plots and sheets.

Every page is one file that fetches nothing. Beside each HTML page there is the same table as Markdown.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from howsure import __version__
from howsure.bench.plan import Table
from howsure.bench.report.comparison import VERDICTS, Comparison, Record, Value, compare, read_records
from howsure.bench.report.illustrations import illustrate
from howsure.bench.report.summary import summary, summary_figure
from howsure.bench.report.table_figures import curve_figures, dots_figure
from howsure.bench.report.text_table import RULE, heading, markdown, notes, shown_lines
from howsure.errors import InputError
from howsure.files import write_whole
from howsure.plots import page
from howsure.plots.page import Column, Html

__all__ = ["write_site"]

GOOD = {"beaten": "good", "reached": "good", "not reached": "bad"}


def write_site(tables: Sequence[Table], results: Path, out: Path) -> list[Path]:
    """Write the pages of all tables that have a record below `results`; a table without one is named, not estimated."""
    found = [compare(table, read_records(table, results / table.name)) for table in tables]
    run = [one for one in found if any(one.records.values())]
    if not run:
        raise InputError("results", expected=f"records below {results}", got="none", fix="howsure bench TABLE")
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for one in run:
        for suffix, text in (
            ("html", _page(one, illustrate(one.table, results / one.table.name))),
            ("md", markdown(one)),
        ):
            written.append(out / f"{one.table.name}.{suffix}")
            write_whole(written[-1], text.encode())
        if one.table.summary:
            written += _summarise(one, out)
    index = out / "index.html"
    write_whole(index, _index(found).encode())
    return [index, *written]


def _summarise(found: Comparison, out: Path) -> list[Path]:
    """The table in a few lines and one picture."""
    text, picture = (out / f"{found.table.name}-summary.{suffix}" for suffix in ("md", "png"))
    write_whole(text, summary(found).encode())
    drawn = io.BytesIO()
    summary_figure(found).savefig(drawn, format="png", dpi=150, metadata={"Software": None})
    write_whole(picture, drawn.getvalue())
    return [text, picture]


def _index(found: Sequence[Comparison]) -> str:
    columns = [Column("table"), Column("runs"), *(Column(verdict, "published numbers") for verdict in VERDICTS)]
    rows = []
    for one in found:
        runs = sum(map(len, one.runs().values()))
        link = Html(f'<a href="{one.table.name}.html">{page.html(one.table.title)}</a>') if runs else one.table.title
        counts = [one.count(verdict) if runs else "-" for verdict in VERDICTS]
        rows.append([link, runs or "not run", *counts])
    return page.document(
        "howsure: published tables, run again",
        page.paragraph("Every number comes from a record that is kept with its recipe, seed, versions and commit."),
        page.paragraph(RULE),
        page.section("All tables", page.table(columns, rows, caption="Verdicts on published numbers, by table.")),
        page.paragraph(f"Made by howsure {__version__}.", kind="soft"),
    )


def _page(found: Comparison, illustrations: Mapping[str, Html]) -> str:
    table, printed, further = found.table, found.published_columns(), found.further_columns()
    parts: list[object] = [
        page.paragraph(Html('<a href="index.html">All tables</a>')),
        page.paragraph(f"{found.verdicts().capitalize()}.", kind="lead"),
        page.paragraph(f"Published: {table.source}."),
        page.paragraph(RULE, kind="soft"),
    ]
    if printed:
        caption = "Ours above, the published number and the verdict below. Arrows point to where it is better."
        parts.append(page.section("Beside the published numbers", _table(found, printed, caption=caption)))
        parts.append(page.section("The same as dots", page.figures(*(dots_figure(found, name) for name in printed))))
    if further:
        caption = "Columns without published numbers, by the correct conventions. Arrows point to where it is better."
        parts.append(page.section("Further columns", _table(found, further, caption=caption)))
    if curves := curve_figures(found):
        parts.append(page.section("Curves", page.figures(*curves)))
    parts += [page.section(f"{words}, first seed", part) for words, part in illustrations.items()]
    conventions = {table.columns[name].words: table.columns[name].convention for name in (*printed, *further)}
    parts.append(page.section("What the columns are", page.facts(conventions)))
    parts.append(page.section("Notes", *(page.paragraph(note) for note in notes(found))))
    parts.append(page.section("How this was made", _made(found)))
    return page.document(table.title, *parts)


def _table(found: Comparison, names: Sequence[str], *, caption: str) -> Html:
    columns = [Column(""), *(Column(heading(found, name), found.table.columns[name].group) for name in names)]
    lines = shown_lines(found, names)
    rows = [[line.words, *(_cell(line.values.get(name, Value())) for name in names)] for line in lines]
    return page.table(columns, rows, caption=caption)


def _cell(value: Value) -> object:
    """Ours, the published number, and the verdict, a line each; a number and its deviation are not broken apart."""
    ours, printed = (text.replace(" ", "\N{NO-BREAK SPACE}") for text in (value.ours, value.published))
    if not printed:
        return ours
    verdict = f'<span class="{GOOD.get(value.verdict, "soft")}">{page.html(value.verdict)}</span>'
    return Html(f'{page.html(ours)}<br><span class="soft">{page.html(printed)}</span><br>{verdict}')


def _made(found: Comparison) -> Html:
    records: list[Record] = [record for kept in found.runs().values() for record in kept]
    commits = {str(record.get("commit")) for record in records}
    versions = {f"{name} {version}" for record in records for name, version in record["versions"].items()}
    spent = sum(record.get("seconds", {}).get("cpu", 0.0) for record in records)
    facts = {
        "runs": len(records),
        "processor time": f"{spent / 3600:.2f} hours",
        "versions": ", ".join(sorted(versions)),
        "commits": ", ".join(sorted(commits)),
        "data": ", ".join(f"{role}: {source}" for role, source in found.table.data.items()),
    }
    return page.facts(facts)
