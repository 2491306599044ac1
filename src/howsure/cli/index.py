"""howsure index: pictures into a gallery, and out of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from howsure.cli import distributed as across
from howsure.cli.console import Json, Strict, device, print_json, progress, report_skipped, say, skipped_json
from howsure.errors import GalleryError, InputError

if TYPE_CHECKING:
    from howsure.data import ImageSet, Skipped
    from howsure.embedder import Embedder
    from howsure.index import Index

BLOCK = 1024  # pictures that become durable together


def index(
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="Pictures: a folder, a file, a CSV or JSONL, or a set.")
    ] = None,
    model: Annotated[Path | None, typer.Option("-m", "--model", help="A model directory.")] = None,
    out: Annotated[
        str | None,
        typer.Option("-o", "--out", metavar="GALLERY", help="The gallery to create or add to: a path or a URL."),
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(help="An id to take out; may be repeated.")] = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Add pictures to a gallery, or remove some. What was added before and has not changed is left alone."""
    if out is None or (data is None and not remove):
        raise InputError("index", expected="DATA -m MODEL -o GALLERY, or -o GALLERY --remove ID", got="less")
    if across.rank() > 0:
        if data is not None and model is not None:
            _help_to_encode(data, model, strict=strict)
        return
    from howsure.index import connect

    counts = {"added": 0, "unchanged": 0, "removed": 0}
    skipped: list[Skipped] = []
    if data is None:
        gallery = connect(out, write=True)
    else:
        if model is None:
            raise InputError("index", expected="-m MODEL", got="no model", fix="howsure train DATA -o MODEL makes one")
        embedder, images, gallery = _ready(data, model, out)
    with gallery, across.together():
        if gallery.recovered:
            say(gallery.recovered)
        if remove:
            counts["removed"] = gallery.remove(remove)
        if data is not None:
            added, unchanged, skipped = _add(gallery, embedder, images, strict=strict)
            counts |= {"added": added, "unchanged": unchanged}
        total = len(gallery)
    report_skipped(skipped)
    if as_json:
        print_json({"gallery": str(out), "items": total, **counts, "skipped": skipped_json(skipped)})
    else:
        changes = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        print(f"{out}: {total} items ({changes or 'no change'})")


def _ready(data: str, model: Path, out: str) -> tuple[Embedder, ImageSet, Index]:
    from howsure import data as pictures
    from howsure.embedder import Embedder
    from howsure.index import connect

    embedder = Embedder.load(model).to(device())
    images = pictures.load(data)
    about = {"model": str(model.resolve()), "fingerprint": embedder.fingerprint}
    gallery = connect(out, create=True, about=about)
    made_with = gallery.about.get("fingerprint")
    if made_with != embedder.fingerprint:
        gallery.close()
        raise GalleryError(
            f"gallery {out}",
            expected=f"the model that made it, {made_with}",
            got=embedder.fingerprint,
            fix="use that model, or make a new gallery",
        )
    gallery.describe(about)
    return embedder, images, gallery


def _add(gallery: Index, embedder: Embedder, images: ImageSet, *, strict: bool) -> tuple[int, int, list[Skipped]]:
    from howsure.data import none_readable

    stamps = [_stamp(images, row) for row in range(len(images))]
    known = gallery.present(images.ids)
    present = [row for row, name in enumerate(images.ids) if name in known]
    old = gallery.items([images.ids[row] for row in present])
    same = {row for row, item in zip(present, old, strict=True) if item.metadata == stamps[row]}
    rows = [row for row in range(len(images)) if row not in same]
    todo = across.agree(images, rows)
    stamp_of = {images.ids[row]: stamps[row] for row in rows}
    skipped: list[Skipped] = []
    added = 0
    with progress("indexing", len(todo)) as bar:
        for part in across.encode_across(embedder, todo, batch=BLOCK, strict=strict):
            ids = part.images.ids
            gallery.add(ids, part.embedding, labels=part.images.labels, metadata=[stamp_of[name] for name in ids])
            added += len(ids)
            skipped.extend(part.skipped)
            bar(added + len(skipped))
    if skipped and not added and not same:
        raise none_readable(images, skipped)
    return added, len(same), skipped


def _help_to_encode(data: str, model: Path, *, strict: bool) -> None:
    """What a process that is not the first does: its share of the encoding."""
    from howsure import data as pictures
    from howsure.embedder import Embedder

    embedder, images = Embedder.load(model).to(device()), pictures.load(data)
    with across.together():
        for _ in across.encode_across(embedder, across.agree(images, None), batch=BLOCK, strict=strict):
            pass


def _stamp(images: ImageSet, row: int) -> dict[str, Any]:
    """Where a picture came from, and enough to see that it has not changed."""
    path = images.paths[row]
    if path is None:
        return {"source": images.name}
    try:
        stat = path.stat()
    except OSError:
        return {"path": str(path.absolute())}
    return {"path": str(path.absolute()), "bytes": stat.st_size, "modified": stat.st_mtime_ns}
