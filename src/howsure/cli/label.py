"""howsure label: what do the queries show that were drawn by lot?"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from howsure.cli.console import Json, print_json, say
from howsure.errors import DataError, InputError

if TYPE_CHECKING:
    from howsure.decide import DrawnQuery, Verdict
    from howsure.gallery import Gallery

UNKNOWN, UNCLEAR = "--unknown", "--unclear"  # in place of a name, also in a table


def label(
    gallery: Annotated[str, typer.Argument(metavar="GALLERY", help="A gallery that howsure search --audit asked.")],
    query: Annotated[str | None, typer.Argument(metavar="ID", help="The number of a drawn query.")] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="What it shows: a label of the gallery.")] = None,
    unknown: Annotated[bool, typer.Option("--unknown", help="What it shows is not in the gallery.")] = False,
    unclear: Annotated[
        bool, typer.Option("--unclear", help="Nobody can tell: counts as unknown, so that any match for it is wrong.")
    ] = False,
    table: Annotated[
        Path | None,
        typer.Option("--csv", help="Many at once: columns id and label, which may be --unknown, --unclear or empty."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what queries show that were drawn by howsure search --audit; without an ID, list those that wait.

    Go through them in order: howsure calibrate GALLERY --audited uses them up to the first without a verdict.
    """
    from howsure.gallery import Gallery

    given = [UNKNOWN] * unknown + [UNCLEAR] * unclear + ([] if name is None else [name])
    if len(given) != (query is not None) or (query is not None and table is not None):
        expected = "ID and one of NAME, --unknown and --unclear; or --csv FILE; or none of them"
        got = " and ".join([*(["ID"] if query else []), *map(repr, given), *(["--csv"] if table else [])])
        raise InputError("label", expected=expected, got=got)
    said = {query: given[0]} if query is not None else _read(table) if table else {}
    with Gallery.open(gallery) as opened:
        if said:
            _judge(opened, said, as_json=as_json)
        else:
            _list(gallery, opened.audit.queries(), as_json=as_json)


def _read(table: Path) -> dict[str, str]:
    """What a table says, by number; a row without a label says nothing."""
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        got = (getattr(error, "strerror", None) or str(error)).lower()
        raise DataError(str(table), expected="a CSV file of UTF-8 text", got=got) from error
    if not rows or not {"id", "label"} <= rows[0].keys():
        got = ", ".join(map(str, rows[0])) if rows else "no rows"
        raise DataError(str(table), expected="the columns id and label in the first line, then rows", got=got)
    said: dict[str, str] = {}
    for row in rows:
        if row["label"]:
            if row["id"] in said:
                raise DataError(str(table), expected="each id once", got=f"{row['id']!r} again")
            said[row["id"] or ""] = row["label"]
    if not said:
        raise DataError(str(table), expected="at least one label", got="none")
    return said


def _judge(gallery: Gallery, said: dict[str, str], *, as_json: bool) -> None:
    from howsure.decide.seen import Named

    names = sorted({word for word in said.values() if word not in (UNKNOWN, UNCLEAR)})
    replaced = gallery.audit.judge({query: _verdict(word) for query, word in said.items()})
    for name, count in zip(names, gallery.index.references(names), strict=True):
        if not count:
            say(f"the gallery has no {name!r}: it counts as an unknown identity; label it again if that is a slip")
    if replaced:
        say(f"in place of the verdicts that there were on {Named.first(sorted(replaced, key=int))}")
    waiting = sum(one.verdict is None for one in gallery.audit.queries())
    if as_json:
        print_json({"labelled": [*said], "replaced": sorted(replaced, key=int), "waiting": waiting})
    else:
        print(f"{gallery.where}: {len(said)} labelled, {waiting} drawn queries wait for a verdict")


def _verdict(word: str) -> Verdict:
    from howsure.decide import Verdict

    if word == UNKNOWN:
        return Verdict("unknown")
    return Verdict("unclear") if word == UNCLEAR else Verdict("label", word)


def _list(gallery: str, queries: list[DrawnQuery], *, as_json: bool) -> None:
    waiting = [one for one in queries if one.verdict is None]
    if as_json:
        print_json(waiting)
        return
    for one in waiting:
        found = f" {one.best}" if one.answer == "match" else ""
        print(_plain(f"{one.id:>6}  {one.path or one.name}   answered: {one.answer.replace('_', ' ')}{found}"))
    say(f"{len(waiting)} of {len(queries)} drawn queries wait for a verdict")
    if waiting:
        say(f"in order: howsure label {gallery} {waiting[0].id} NAME, or --unknown, or --unclear")


def _plain(text: str) -> str:
    """On one line, with nothing in it that a terminal would obey: names of files may hold anything."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
