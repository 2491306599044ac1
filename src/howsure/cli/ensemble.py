"""howsure ensemble: several models joined into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli.console import Json, Strict, print_json, report_skipped
from howsure.cli.model import load_model, require_no_model


def ensemble(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL MODEL...", help="Models trained alike, with seeds of their own.")
    ],
    align: Annotated[
        str, typer.Option(metavar="DATA", help="Pictures by which the models find common axes; labels do not matter.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The model directory to write.")],
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Join models into one that also knows where they disagree."""
    require_no_model(out)
    from howsure import data as pictures
    from howsure.posteriors import ensemble as posterior

    members = [load_model(model) for model in models]
    decoded = pictures.pixels(pictures.load(align), members[0].spec, strict=strict)
    joined = posterior.fit(members, decoded.images)
    joined.save(out)
    report_skipped(decoded.skipped)
    found = joined.card["alignment"]
    if as_json:
        print_json({"model": str(out), "members": len(members), **found, "skipped": decoded.skipped})
    else:
        print(f"{out}: {len(members)} members, aligned by {found['pictures']} pictures")
        print(f"next: howsure calibrate {out} HELD-OUT-PICTURES")
