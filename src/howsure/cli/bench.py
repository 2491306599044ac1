"""howsure bench: the published tables, run again, and a report on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from howsure.cli.console import Json, print_json, progress, say
from howsure.errors import InputError

if TYPE_CHECKING:
    from howsure.bench.plan import Cell, Table
    from howsure.bench.report.comparison import Comparison
    from howsure.bench.runner import Progress

Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where records and models are kept.")]
RESULTS = Path("results")


class _TableOrVerb(TyperGroup):
    """`howsure bench TABLE` is short for `howsure bench run TABLE`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


bench = typer.Typer(
    cls=_TableOrVerb,
    help="Run a published table again and compare with it: howsure bench TABLE.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@bench.command("run")
def run(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table by name, or a TOML file of your own.")],
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these rows, and those they start from.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="0,1,2", help="Only these seeds.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few pictures, one epoch, two seeds; kept apart.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh/--resume", help="Make these runs again from nothing, or go on where they stopped.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time; by default one a processor.", min=1)] = None,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Make the runs that a table lacks, then print it. What was stopped goes on; what is done is only read."""
    from howsure.bench.plan import table_named
    from howsure.bench.report.comparison import compare, read_records
    from howsure.bench.report.text_table import plain
    from howsure.bench.runner import discard

    chosen = table_named(table)
    cells = chosen.cells(_words(methods), _numbers(seeds) or (chosen.seeds[:2] if quick else None))
    folder = (results / "quick" if quick else results) / chosen.name
    if fresh:
        discard(cells, folder)
    failed = _make(chosen, cells, folder, quick=quick, jobs=jobs)
    found = compare(chosen, read_records(chosen, folder))
    if as_json:
        print_json(_json(found) | {"quick": quick, "failed": {cell.name: why for cell, why in failed.items()}})
    else:
        print(plain(found))
    if failed:
        raise typer.Exit(1)


@bench.command("report")
def report(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="The folder for pages and Markdown.")],
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Write pages about all tables from their records; nothing is run."""
    from howsure.bench.plan import table_named, table_names
    from howsure.bench.report.site import write_site
    from howsure.plots.figures import require_matplotlib

    require_matplotlib()
    written = write_site([table_named(name) for name in table_names()], results, out)
    if as_json:
        print_json({"pages": [str(file) for file in written]})
    else:
        print(f"{written[0]}: {len(written)} files")


@bench.command("tables")
def tables(results: Results = RESULTS, as_json: Json = False) -> None:
    """List the tables, and how many of their runs are made."""
    from howsure.bench.plan import table_named, table_names
    from howsure.bench.runner import record_file

    rows = []
    for name in table_names():
        table = table_named(name)
        cells = table.cells()
        made = sum(record_file(results / name, cell).exists() for cell in cells)
        rows.append({"table": name, "title": table.title, "runs": len(cells), "made": made})
    if as_json:
        print_json(rows)
        return
    width = max(len(str(row["table"])) for row in rows)
    for row in rows:
        print(f"{row['table']:<{width}}  {row['made']:>2} of {row['runs']:>2} runs  {row['title']}")


def _make(table: Table, cells: list[Cell], folder: Path, *, quick: bool, jobs: int | None) -> dict[Cell, str]:
    """Make what is missing; the cells that failed, and why."""
    from howsure.bench.runner import make_missing

    with progress(table.name, len(cells)) as bar:

        def tell(now: Progress) -> None:
            bar(now.done / now.total * len(cells), f"{table.name}: {now.cell.name}")
            if now.what in ("made", "failed"):
                count = f"{round(now.done)} of {now.total}"
                say(f"{now.cell.name} {now.what}{': ' * bool(now.reason)}{now.reason}; {count}{_left(now.left)}")

        try:
            return make_missing(table, cells, folder, quick=quick, jobs=jobs, tell=tell)
        except KeyboardInterrupt as error:
            say("stopped; the same command goes on, each run from its last whole epoch")
            raise typer.Exit(130) from error


def _left(seconds: float | None) -> str:
    if not seconds:
        return ""
    hours, minutes = divmod(max(1, round(seconds / 60)), 60)
    return f", about {f'{hours} h ' if hours else ''}{minutes} min left"


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",")]


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0:
        raise InputError("--seeds", expected="whole numbers from 0 on, such as 0,1,2", got=text)
    return numbers


def _json(found: Comparison) -> dict[str, Any]:
    """The table for a program."""
    return {
        "table": found.table.name,
        "title": found.table.title,
        "verdicts": found.verdicts(),
        "settled": dict(found.settled),
        "rows": [
            {
                "row": line.words,
                "kind": line.kind,
                "values": {
                    name: vars(value) | {"published": value.published or None, "verdict": value.verdict or None}
                    for name, value in line.values.items()
                },
            }
            for line in found.lines
        ],
    }
