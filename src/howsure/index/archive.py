"""A gallery as one file, to keep or to move between engines, bit for bit.

The file is a .npz, that is, a zip, which numpy opens and any zip program too:

    manifest.json    version, number of items, layout of the records, about, prior
    items.jsonl      id, label and metadata, an item a line
    records.npy      (N,) records with the family's fields

Files of `howsure embed` are read too; they know ids, labels and moments.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from howsure.embeddings import Embedding, restore
from howsure.errors import GalleryError, HowsureError, InputError
from howsure.index.index import Index
from howsure.index.items import Item
from howsure.index.layout import Layout
from howsure.index.local.snapshot import publish
from howsure.prior import Prior

FORMAT, SCHEMA = "howsure gallery", 1
ROWS = 1024  # moved together
# What `howsure embed` writes beside the fields of the family.
EXTRAS = {"family", "ids", "labels", "mean", "variance", "uncertainty", "about"}

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Manifest:
    """What an export knows of the gallery as a whole."""

    count: int
    layout: Layout | None  # None if there were no items
    about: Mapping[str, Any]
    prior: Prior | None


# Writing.


def export_gallery(gallery: Index, path: str | Path, *, progress: Progress = lambda done: None) -> int:
    """Write all items to a file, which is whole or absent; how many."""
    path = Path(path)
    if path.suffix != ".npz":
        raise InputError("file of an export", expected="a name that ends in .npz", got=str(path))
    before, ids = gallery.changes, gallery.ids()
    layout = Layout.from_embedding(gallery.get(ids[:1])) if ids else None
    with _whole_file(path) as file, zipfile.ZipFile(file, "w") as archive, tempfile.TemporaryFile() as lines:
        if layout:
            with archive.open("records.npy", "w", force_zip64=True) as records:
                header = np.lib.format.header_data_from_array_1_0(np.empty(0, layout.record)) | {"shape": (len(ids),)}
                np.lib.format.write_array_header_2_0(records, header)
                for start in range(0, len(ids), ROWS):
                    block = ids[start : start + ROWS]
                    records.write(layout.pack(gallery.get(block)).tobytes())
                    lines.writelines(_line(item) for item in gallery.items(block))
                    progress(start + len(block))
        lines.seek(0)
        with archive.open("items.jsonl", "w", force_zip64=True) as items:
            while part := lines.read(1 << 20):
                items.write(part)
        archive.writestr("manifest.json", json.dumps(_manifest(gallery, layout, len(ids)), indent=1))
        if gallery.changes != before:
            raise GalleryError(
                "export", expected="a gallery at rest", got="one that changed meanwhile", fix="export again"
            )
    return len(ids)


def _manifest(gallery: Index, layout: Layout | None, count: int) -> dict[str, Any]:
    prior = gallery.prior
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "count": count,
        "layout": layout.to_json() if layout else None,
        "about": gallery.about,
        "prior": prior.to_json() if prior else None,
    }


def _line(item: Item) -> bytes:
    return json.dumps([item.id, item.label, dict(item.metadata)]).encode() + b"\n"


@contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes]]:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with beside.open("wb") as file:
                yield file
                publish(file, path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise GalleryError(
            f"export {path}", expected="to be written", got=str(error), fix="choose another path"
        ) from error


# Reading.


def read_manifest(path: str | Path) -> Manifest:
    """What an export says of itself, after a look at every byte of it."""
    with _opened(Path(path)) as archive:
        if damaged := archive.testzip():
            raise _damaged(Path(path), f"a checksum mismatch in {damaged}")
        return _read_manifest(archive, Path(path))


def import_gallery(path: str | Path, gallery: Index, *, progress: Progress = lambda done: None) -> int:
    """Add all items of an export to a gallery; how many of them were not there already.

    Items that are there, and the same, are left alone. So an import that was interrupted goes on when called again.
    """
    path, added, done = Path(path), 0, 0
    manifest = read_manifest(path)
    if manifest.prior and (gallery.prior is None or gallery.prior.version != manifest.prior.version):
        gallery.set_prior(manifest.prior)
    with _opened(path) as archive:
        for items, embedding in _blocks(archive, path, manifest):
            keep = _new(items, embedding, gallery)
            new = [items[position] for position in keep]
            if new:
                labels, metadata = [item.label for item in new], [item.metadata for item in new]
                gallery.add([item.id for item in new], embedding[keep], labels=labels, metadata=metadata)
            added, done = added + len(keep), done + len(items)
            progress(done)
    return added


def _new(items: list[Item], embedding: Embedding, gallery: Index) -> list[int]:
    """Positions of the items that the gallery lacks, or has otherwise."""
    present = gallery.present([item.id for item in items])
    known = [item.id for item in items if item.id in present]
    if not known:
        return list(range(len(items)))
    layout = Layout.from_embedding(embedding)
    records = [record.tobytes() for record in layout.pack(gallery.get(known))]
    held = dict(zip(known, zip(gallery.items(known), records, strict=True), strict=True))
    ours = zip(items, layout.pack(embedding), strict=True)
    return [position for position, (item, record) in enumerate(ours) if held.get(item.id) != (item, record.tobytes())]


def _blocks(archive: zipfile.ZipFile, path: Path, manifest: Manifest) -> Iterator[tuple[list[Item], Embedding]]:
    layout = manifest.layout
    if layout is None:
        return
    if "manifest.json" not in archive.namelist():
        yield from _embed_blocks(path)
        return
    size, count = layout.record.itemsize, 0
    with archive.open("items.jsonl") as lines, archive.open("records.npy") as file:
        _check_header(file, path, manifest.count, layout)
        while part := list(islice(lines, ROWS)):
            count += len(part)
            data = file.read(len(part) * size)
            if len(data) != len(part) * size or count > manifest.count:
                raise _damaged(path, "records and items that do not fit")
            yield [Item(*json.loads(line)) for line in part], layout.unpack(np.frombuffer(data, layout.record))
    if count != manifest.count:
        raise _damaged(path, f"{count} items of {manifest.count}")


def _check_header(file: IO[bytes], path: Path, count: int, layout: Layout) -> None:
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    if shape != (count,) or dtype != layout.record:
        raise _damaged(path, "records that the manifest does not describe")


def _read_manifest(archive: zipfile.ZipFile, path: Path) -> Manifest:
    if "manifest.json" not in archive.namelist():
        return _embed_manifest(path)
    stored = json.loads(archive.read("manifest.json"))
    if stored.get("format") != FORMAT:
        raise _damaged(path, "the manifest of something else")
    if stored["schema"] > SCHEMA:
        raise GalleryError(
            f"export {path}",
            expected=f"version {SCHEMA} of the format, or an older one",
            got=f"version {stored['schema']}",
            fix="update howsure",
        )
    layout, prior = stored["layout"], stored["prior"]
    return Manifest(
        stored["count"],
        Layout.from_json(layout) if layout else None,
        stored["about"],
        Prior.from_json(prior) if prior else None,
    )


# Files of `howsure embed`: the format before there was a manifest.


def _embed_manifest(path: Path) -> Manifest:
    with np.load(path) as arrays:
        about = json.loads(str(arrays["about"])) if "about" in arrays else {}
        embedding = _read_embedding(arrays, path)
    return Manifest(len(embedding), Layout.from_embedding(embedding) if len(embedding) else None, about, None)


def _embed_blocks(path: Path) -> Iterator[tuple[list[Item], Embedding]]:
    with np.load(path) as arrays:
        embedding = _read_embedding(arrays, path)
        named = zip(arrays["ids"].tolist(), arrays["labels"].tolist(), strict=True)
    items = [Item(name, label or None, {}) for name, label in named]
    for start in range(0, len(items), ROWS):
        yield items[start : start + ROWS], embedding[start : start + ROWS]


def _read_embedding(arrays: Mapping[str, np.ndarray], path: Path) -> Embedding:
    if "ids" not in arrays or "family" not in arrays:
        raise _damaged(path, "no manifest")
    return restore(str(arrays["family"]), {name: array for name, array in arrays.items() if name not in EXTRAS})


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except HowsureError:
        raise
    except FileNotFoundError as error:
        raise GalleryError(f"export {path}", expected="a file", got="none") from error
    except (OSError, zipfile.BadZipFile, EOFError, KeyError, ValueError, TypeError) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, got: str) -> GalleryError:
    return GalleryError(
        f"export {path}", expected="a whole file that howsure wrote", got=got, fix="export the gallery again"
    )
