"""howsure demo: the whole way in under two minutes, on data that comes with a dependency."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from howsure.cli.console import Json, Seed, device, print_json, progress, say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from howsure.decide.outcomes import Tally
    from howsure.demo import Demo

# A picture of the terminal that fetches nothing: the system's own monospace font.
SVG_FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
  line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Where model, gallery, pictures and report go.")] = Path(
        "howsure-demo"
    ),
    method: Annotated[str, typer.Option(help="point, or gaussian: with a scale for every picture.")] = "point",
    seed: Seed = 0,
    web_app: Annotated[bool, typer.Option("--serve", help="Then open the web app on the gallery.")] = False,
    as_json: Json = False,
    svg: Annotated[Path | None, typer.Option(hidden=True, help="Also draw what is printed, as an SVG.")] = None,
) -> None:
    """Train, calibrate, index and search handwritten digits, two of which the model has never seen."""
    from howsure import demo as show

    done = show.run(out, method=method, seed=seed, device=device(), stage=_stage)
    with _stage("writing the report", 1):
        show.write_report(done)
    if as_json:
        print_json(_json(done))
    else:
        _show(done, svg)
    if web_app:
        from howsure.cli.serve import serve

        serve(str(done.folder / "gallery"))


def _show(done: Demo, svg: Path | None) -> None:
    from rich.console import Console

    _print(done, Console(highlight=False))
    if svg:
        drawn = Console(highlight=False, record=True, width=96, file=io.StringIO())
        _print(done, drawn)
        drawn.save_svg(str(svg), title="howsure demo", code_format=SVG_FORMAT, unique_id="howsure")


@contextmanager
def _stage(task: str, total: int) -> Iterator[Callable[[float], None]]:
    say(f"{task} ...")
    with progress(task, total) as bar:
        yield bar


def _json(done: Demo) -> dict[str, Any]:
    from howsure.demo import CONFIDENCE, MAX_ERROR, PROMISED, headline, promise

    return {
        "summary": headline(done),
        "promise": promise(done),
        "max_error": MAX_ERROR,
        "confidence": CONFIDENCE,
        "table": [
            {
                "rule": row.name,
                **row.tallies,
                "known_and_unknown": _rates(row.over(*PROMISED)),
                "overall": _rates(row.over(*row.tallies)),
            }
            for row in done.rows
        ],
        "certificate": done.policy.certificate if done.policy else None,
        "seed": done.seed,
        "method": done.embedder.card["recipe"]["method"],
        "seconds": done.seconds,
        "model": str(done.folder / "model"),
        "gallery": str(done.folder / "gallery"),
        "pictures": str(done.folder / "pictures"),
        "report": str(done.report),
    }


def _rates(tally: Tally) -> dict[str, Any]:
    return vars(tally) | {"coverage": tally.coverage, "error": tally.error}


def _print(done: Demo, console: Console) -> None:
    from howsure.demo import headline, promise

    console.print(headline(done), style="bold")
    console.print()
    console.print(_table(done))
    for row in done.rows:
        if not row.over(*row.tallies).answered:
            console.print(f"{row.name}: no threshold could be certified", style="dim")
    console.print()
    console.print(promise(done))
    console.print("\nIts answers, with P(the best match is right)", style="bold")
    console.print(_examples(done))
    console.print(f"\nReport: {done.report}", style="bold", soft_wrap=True)
    console.print("Try next:")
    for command in _commands(done):
        console.print(f"  {command}", soft_wrap=True)


def _table(done: Demo) -> Table:
    from rich import box
    from rich.table import Table

    from howsure.demo import HOWSURE, PROMISED, share

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    table.add_column("\nanswers by")
    heads = ("known\nanswers", "\nwrong", "unknown\nanswers", "\nwrong", "both:\ncoverage", "\nerror")
    for head in (*heads, "corrupted\nanswers", "\nwrong"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in done.rows:
        cells = [row.name]
        for tally in (row.tallies[group] for group in PROMISED):
            cells += [f"{tally.answered}/{tally.asked}", str(tally.wrong)]
        both, corrupted = row.over(*PROMISED), row.tallies["corrupted"]
        cells += [share(both.coverage), share(both.error)]
        cells += [f"{corrupted.answered}/{corrupted.asked}", str(corrupted.wrong)]
        table.add_row(*cells, style="bold green" if row.name == HOWSURE else None)
    return table


def _examples(done: Demo) -> Table:
    from rich.table import Table
    from rich.text import Text

    from howsure.demo import answer_text, chance, examples

    grid = Table.grid(padding=(0, 2))
    for query in examples(done):
        what = f"{query.kind} {query.label}" + (f" ({query.corruption})" if query.corruption else "")
        style = "red" if query.wrong else "green" if query.answered else "yellow"
        words, why = answer_text(query)
        note = "wrong" if query.wrong else why
        grid.add_row(f"  {what}", Text(words, style), chance(query.finding.answer.probability), Text(note, style))
    return grid


def _commands(done: Demo) -> list[str]:
    """Things to type, on pictures that are there; the last opens the web app."""
    first = {query.kind: shlex.quote(str(query.path)) for query in reversed(done.queries)}
    model, gallery, known = (shlex.quote(str(done.folder / name)) for name in ("model", "gallery", "pictures/known"))
    # As it was called: a demo run from a fresh clone has no howsure on the path.
    howsure = "howsure" if shutil.which("howsure") else shlex.quote(os.path.relpath(sys.argv[0]))
    return [
        f"{howsure} search {gallery} {first['unknown']}",
        f"{howsure} search {gallery} {first['corrupted']}",
        f"{howsure} evaluate {model} {known}",
        f"{howsure} serve {gallery}",
    ]
