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

from howsure.index.local.scan import one_thread, products
from howsure.index.local.snapshot import SnapshotError, publish, read_manifest, write_manifest
from howsure.index.ranking.shrunk_keys import ShrunkQuery, rows_of

MANIFEST = "snapshot-lists.json"
FROM = 10_000  # rows; fewer are read sooner than lists are
COUNT = 200  # rows found for a query by lists that do not say
BEST = 10  # most likely items, by which lists are judged
# Lists for each root of the number of rows, rows for each list to learn from, and rounds to learn in.
SHARE, LEARN, ROUNDS = 4, 32, 10
ROWS = 1 << 16
MORE = 16  # lists read, where the usual hold too little
ONE_BY_ONE = 8  # lists that are chosen sooner by as many looks at all of them than by a partition
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

    def found(self, query: ShrunkQuery, k: int, count: int, removed: np.ndarray | None) -> list[np.ndarray]:
        """For each query, at least `count` rows about nearest to it, none of them removed, or all that was read.

        Where that is less than k, more lists are read, but not many more.
        """
        if self.whole(count):
            products = self.members.products(query.keys)
            return [self.members.near(line, self.probes, removed, least=k) for line in products]
        options = _options(nprobe=self.probes)
        if removed is not None:
            options = _options(nprobe=self.probes, sel=_bitmap(np.packbits(~removed, bitorder="little")))
        with one_thread():
            _, rows = self.index.search(np.ascontiguousarray(query.keys[:, : self.index.d]), count, params=options)
        return [line[line >= 0] for line in rows]

    def whole(self, count: int) -> bool:
        """Whether lists hold little more than is asked for: all of it is found sooner than the nearest of it."""
        return bool(self.probes * self.index.ntotal <= ALL * count * self.index.nlist)

    @cached_property
    def members(self) -> Members:
        """The rows of each list."""
        lists, centres = self.index.invlists, self.index.quantizer
        rows = [faiss.rev_swig_ptr(lists.get_ids(n), lists.list_size(n)) for n in range(lists.nlist)]
        return Members(centres.reconstruct_n(0, centres.ntotal), rows)


class Members:
    """The centres of lists (L, D), and the rows of each list."""

    def __init__(self, centres: np.ndarray, rows: Sequence[np.ndarray]):
        self._centres, self._rows = rows_of(centres), rows

    def products(self, keys: np.ndarray) -> np.ndarray:
        """Of keys (Q, W) with the centres, (Q, L): the larger, the nearer."""
        return np.asarray(keys @ self._centres.T)

    def near(self, products: np.ndarray, probes: int, removed: np.ndarray | None, least: int = 0) -> np.ndarray:
        """Rows of the lists that have the largest products (L,) with a key, but for removed ones.

        As many lists as `probes`, and up to `MORE` others until they hold at least so many rows.
        """
        rows = self._rows_of(_largest(products, probes), removed)
        if len(rows) >= least:
            return rows
        order = np.argsort(-products)[: probes + MORE].tolist()
        more = probes
        while len(rows) < least and more < len(order):
            more += 1
            rows = self._rows_of(order[:more], removed)
        return rows

    def _rows_of(self, lists: Sequence[int], removed: np.ndarray | None) -> np.ndarray:
        rows = np.concatenate([self._rows[place] for place in lists])
        return rows if removed is None else rows[~removed[rows]]


def _largest(values: np.ndarray, count: int) -> list[int]:
    """Where the largest are, in any order."""
    if count > ONE_BY_ONE:
        return [int(place) for place in values.argpartition(-count)[-count:]]
    values, chosen = values.copy(), [int(values.argmax())]
    while len(chosen) < count:
        values[chosen[-1]] = -np.inf
        chosen.append(int(values.argmax()))
    return chosen


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
