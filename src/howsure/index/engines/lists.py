"""Inverted lists over the shrunk means of a snapshot: a search that reads a few of them, and may miss some.

    gallery/snapshot-lists.json                manifest: file, checksum, of which snapshot, probes, count, recall
    gallery/snapshot-0000000000000042.faiss    the lists, one byte a dimension, as faiss writes them

They are never the truth: without them, or if they are damaged, searches read all rows.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from howsure.index.engines.scan import products
from howsure.index.engines.snapshot import SnapshotError, publish, read_manifest, write_manifest

MANIFEST = "snapshot-lists.json"
FROM = 10_000  # rows; fewer are read sooner than lists are
COUNT = 200  # rows found for a query, where no more are needed
# Lists for each root of the number of rows, rows for each list to learn from, and rounds to learn in.
SHARE, LEARN, ROUNDS = 2, 64, 10
ROWS = 1 << 16

# What faiss makes of these in Python differs from what its types say.
_options: Any = faiss.SearchParametersIVF
_bitmap: Any = faiss.IDSelectorBitmap


@dataclass(frozen=True, eq=False)
class Lists:
    """A faiss index whose ids are rows of the snapshot."""

    index: Any
    probes: int  # lists read for a query
    recall: float  # of the ten most likely, at that many, when they were made
    scan_recall: float  # of the same where candidates come from a scan of all rows
    count: int = COUNT  # rows found for a query

    def nearest(self, keys: np.ndarray, count: int, removed: np.ndarray | None) -> np.ndarray:
        """(Q, count) rows about nearest to each key, none of them removed; -1 where there are no more."""
        options = _options(nprobe=self.probes)
        if removed is not None:
            options = _options(nprobe=self.probes, sel=_bitmap(np.packbits(~removed, bitorder="little")))
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)
        try:
            _, rows = self.index.search(np.ascontiguousarray(keys), count, params=options)
        finally:
            faiss.omp_set_num_threads(threads)
        return np.asarray(rows)


def build_lists(rows: np.ndarray) -> Any:
    """A faiss index of these means, (N, D) of float32, a view or a map."""
    count, dim = rows.shape
    lists = max(1, int(SHARE * count**0.5))
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatL2(dim), dim, lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_L2, False
    )
    index.cp.niter, index.cp.max_points_per_centroid, index.cp.min_points_per_centroid = ROUNDS, LEARN, 1
    chosen = np.random.default_rng(0).choice(count, min(count, LEARN * lists), replace=False)
    with products():
        index.train(np.ascontiguousarray(rows[np.sort(chosen)]))
        for start in range(0, count, ROWS):
            index.add(np.ascontiguousarray(rows[start : start + ROWS]))
    return index


def write_lists(directory: Path, lists: Lists, *, sequence: int, of: int) -> None:
    """Write them beside the snapshot of this sequence and checksum; drop older ones."""
    name = f"snapshot-{sequence:016d}.faiss"
    data = faiss.serialize_index(lists.index).data
    with (directory / f"{name}.new").open("wb") as file:
        file.write(data)
        publish(file, directory / name)
    numbers = {name: getattr(lists, name) for name in ("probes", "recall", "scan_recall", "count")}
    write_manifest(directory / MANIFEST, {"file": name, "checksum": zlib.crc32(data), "of": of, **numbers})
    for old in directory.glob("snapshot-*.faiss*"):
        if old.name != name:
            old.unlink(missing_ok=True)


def read_lists(directory: Path, of: int) -> Lists:
    """The lists of the snapshot with this checksum; SnapshotError if they cannot be used."""
    manifest = read_manifest(directory / MANIFEST)
    if manifest is None:
        raise SnapshotError("they are missing")
    if manifest["of"] != of:
        raise SnapshotError("they are of another snapshot")
    try:
        data = np.fromfile(directory / manifest["file"], np.uint8)
    except FileNotFoundError as error:
        raise SnapshotError("their file is missing") from error
    if zlib.crc32(data.data) != manifest["checksum"]:
        raise SnapshotError("checksum mismatch")
    numbers = {name: manifest[name] for name in ("probes", "recall", "scan_recall")}
    # Older manifests do not say the count.
    return Lists(faiss.deserialize_index(data), **numbers, count=manifest.get("count", COUNT))
