"""howsure import: a file into a gallery."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli.console import Json, print_json, progress


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What howsure export or howsure embed wrote.")],
    out: Annotated[str, typer.Option("-o", "--out", metavar="GALLERY", help="A gallery to create or add to.")],
    as_json: Json = False,
) -> None:
    """Read a file into a gallery: a path or a URL. What is there already is left alone."""
    from howsure.index import connect, import_gallery
    from howsure.index.archive import read_manifest
    from howsure.index.index import FINGERPRINT

    manifest = read_manifest(file)
    with connect(out, create=True, about=manifest.about) as index:
        index.require_model(manifest.about.get(FINGERPRINT))
        with progress("importing", manifest.count) as bar:
            added = import_gallery(file, index, progress=bar)
        total = len(index)
    counts = {"added": added, "unchanged": manifest.count - added}
    if as_json:
        print_json({"gallery": out, "items": total, **counts})
    else:
        print(f"{out}: {total} items ({', '.join(f'{count} {what}' for what, count in counts.items() if count)})")
