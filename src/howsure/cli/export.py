"""howsure export: a gallery as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli.console import Json, print_json, progress


def export(
    gallery: Annotated[str, typer.Argument(metavar="GALLERY", help="A gallery: a path or a URL.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The .npz file to write.")],
    as_json: Json = False,
) -> None:
    """Write a gallery to a file, to keep it or to import it on another engine, bit for bit."""
    from howsure.index import connect, export_gallery

    with connect(gallery) as index, progress("exporting", len(index)) as bar:
        count = export_gallery(index, out, progress=bar)
    if as_json:
        print_json({"file": str(out), "items": count})
    else:
        print(f"{out}: {count} items")
