"""Inverted lists over the shrunk means of a snapshot: a search that reads a few of them, and may miss some.

    gallery/snapshot-lists.json                manifest: file, checksum, of which snapshot, probes, count, recall
    gallery/snapshot-0000000000000042.faiss    the lists, one byte a dimension, as faiss writes them

They are never the truth: without them, or if they are damaged, searches read all rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from howsure.index.engines.scan import one_thread, products
from howsure.index.engines.snapshot import SnapshotError, publish, read_manifest, write_manifest

MANIFEST = "snapshot-lists.json"
FROM = 10_000  # rows; fewer are read sooner than lists are
COUNT = 200  # rows found for a query by lists that do not say
BEST = 10  # most likely items, by which lists are judged
# Lists for each root of the number of rows, rows for each list to learn from, and rounds to learn in.
SHARE, LEARN, ROUNDS = 4, 32, 10
ROWS = 1 << 16
MORE = 16  # lists read, where the usual hold too little
ALL = 2  # times the rows asked for: lists that hold no more are read whole

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

    def found(self, keys: np.ndarray, k: int, count: int, removed: np.ndarray | None) -> Found:
        """At least `count` rows about nearest to each key, none of them removed, or all that was read.

        Where that is less than k, more lists are read, but not many more.
        """
        # Where lists hold little more than is asked for, all of it is found sooner than the nearest of it.
        if self.probes * self.index.ntotal <= ALL * count * self.index.nlist:
            found = self.members.near(keys, self.probes, removed)
            return found if found.counts.min() >= k else self.members.near(keys, self.probes, removed, least=k)
        options = _options(nprobe=self.probes)
        if removed is not None:
            options = _options(nprobe=self.probes, sel=_bitmap(np.packbits(~removed, bitorder="little")))
        with one_thread():
            _, rows = self.index.search(np.ascontiguousarray(keys), count, params=options)
        kept = rows >= 0
        return Found(rows[kept], kept.sum(1))

    @cached_property
    def members(self) -> Members:
        """The rows of each list."""
        lists, centres = self.index.invlists, self.index.quantizer
        rows = [faiss.rev_swig_ptr(lists.get_ids(n), lists.list_size(n)).astype(np.int32) for n in range(lists.nlist)]
        return Members(centres.reconstruct_n(0, centres.ntotal), rows)


@dataclass(frozen=True, eq=False)
class Found:
    """Rows of all queries, one query after the other, and how many each has."""

    rows: np.ndarray  # (T,)
    counts: np.ndarray  # (Q,)


class Members:
    """The centres of lists (L, D), and the rows of all lists, one list after the other."""

    def __init__(self, centres: np.ndarray, rows: Sequence[np.ndarray]):
        self._centres, self._half = centres, 0.5 * np.square(centres).sum(1)
        self._rows, self._sizes = np.concatenate(rows), np.array([len(part) for part in rows])
        self._starts = np.cumsum(self._sizes) - self._sizes

    def near(self, keys: np.ndarray, probes: int, removed: np.ndarray | None, least: int = 0) -> Found:
        """Of the lists whose centres are nearest to each key, rows that are not removed.

        As many lists as `probes`, and up to `MORE` others until they hold at least so many rows.
        """
        far = self._half - keys @ self._centres.T  # (Q, L): half the squared distance, but for the key's own length
        if least:
            chosen = np.argsort(far, 1)[:, : probes + MORE]
        else:
            chosen = far.argmin(1)[:, None] if probes == 1 else far.argpartition(probes - 1, 1)[:, :probes]
        sizes, starts = self._sizes[chosen], self._starts[chosen]
        if least:
            enough = np.cumsum(sizes, 1) - sizes >= least
            sizes[enough & (np.arange(sizes.shape[1]) >= probes)] = 0
        counts = sizes.sum(1)
        if sizes.size == 1:
            rows = self._rows[starts[0, 0] : starts[0, 0] + counts[0]]
        else:
            flat = sizes.ravel()
            before = np.cumsum(flat) - flat
            rows = self._rows[np.repeat(starts.ravel() - before, flat) + np.arange(flat.sum())]
        if removed is None:
            return Found(rows, counts)
        kept = ~removed[rows]
        owner = np.repeat(np.arange(len(counts)), counts)[kept]
        return Found(rows[kept], np.bincount(owner, minlength=len(counts)))


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
