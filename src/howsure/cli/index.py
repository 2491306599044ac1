"""howsure index: pictures into a gallery, and out of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from howsure.cli import distributed
from howsure.cli.console import Json, Strict, device, print_json, progress, report_skipped, say
from howsure.cli.model import load_model
from howsure.errors import InputError

if TYPE_CHECKING:
    from howsure.data import Skipped


def index(
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="Pictures: a folder, a file, a CSV or JSONL, or a set.")
    ] = None,
    model: Annotated[Path | None, typer.Option("-m", "--model", help="A model directory.")] = None,
    out: Annotated[
        str | None,
        typer.Option("-o", "--out", metavar="GALLERY", help="The gallery to create or add to: a path or a URL."),
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(help="An id to remove; may be repeated.")] = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Add pictures to a gallery, or remove some. What was added before and has not changed is left alone."""
    if out is None or (data is None and not remove):
        raise InputError("index", expected="DATA -m MODEL -o GALLERY, or -o GALLERY --remove ID", got="less")
    from howsure import data as pictures

    if distributed.rank() > 0:
        if data is not None and model is not None:
            _help_to_encode(data, model, strict=strict)
        return
    from howsure.gallery import Gallery

    counts = {"added": 0, "unchanged": 0, "removed": 0}
    skipped: tuple[Skipped, ...] = ()
    if data is not None and model is None:
        raise InputError("index", expected="-m MODEL", got="no model", fix="howsure train DATA -o MODEL makes one")
    images = None if data is None else pictures.load(data)
    gallery = Gallery.open(out, write=True) if images is None else Gallery.create(out, model, exist_ok=True)
    with gallery, distributed.process_group():
        if gallery.index.recovered:
            say(gallery.index.recovered)
        if remove:
            counts["removed"] = gallery.remove(remove)
        if images is not None:
            gallery.embedder.to(device())
            shared = partial(distributed.encode_shared, gallery.embedder, images, strict=strict)
            encode = shared if distributed.several() else None
            with progress("indexing", len(images)) as bar:
                done = gallery.add(images, strict=strict, encode=encode, progress=bar)
            counts |= {"added": done.added, "unchanged": done.unchanged}
            skipped = done.skipped
        total = len(gallery)
    report_skipped(skipped)
    if as_json:
        print_json({"gallery": str(out), "items": total, **counts, "skipped": skipped})
    else:
        changes = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        print(f"{out}: {total} items ({changes or 'no change'})")


def _help_to_encode(data: str, model: Path, *, strict: bool) -> None:
    """What a process that is not the first does: its share of the encoding."""
    from howsure import data as pictures

    embedder, images = load_model(model), pictures.load(data)
    with distributed.process_group():
        list(distributed.encode_shared(embedder, images, strict=strict))
