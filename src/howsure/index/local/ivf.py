"""An inverted file (IVF) over the shrunk means of a snapshot: a search that probes a few cells, and may miss some.

    gallery/snapshot-lists.json                manifest: file, checksum, of which snapshot, probes, count, recall
    gallery/snapshot-0000000000000042.faiss    the IVF, one byte a dimension, as faiss writes it

It is never the truth: without it, or if it is damaged, searches read all rows.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from howsure.index.local.scan import matrix_products, one_thread
from howsure.index.local.snapshot import SnapshotError, drop_others, publish, read_manifest, write_manifest
from howsure.index.ranking.shrunk_keys import ShrunkQuery, rows_of

MANIFEST = "snapshot-lists.json"
FROM = 10_000  # rows; fewer are scanned faster than cells are probed
COUNT = 200  # rows found for a query by a manifest that does not say
BEST = 10  # most likely items, by which recall is judged
# Cells for each root of the number of rows, rows for each cell to learn from, and rounds to learn in.
SHARE, LEARN, ROUNDS = 4, 32, 10
ROWS = 1 << 16
MORE = 16  # cells probed, where the first hold too few rows
ALL = 2  # times the rows asked for: cells that hold no more are read whole

# What faiss makes of these in Python differs from what its types say.
_options: Any = faiss.SearchParametersIVF
_bitmap: Any = faiss.IDSelectorBitmap


@dataclass(frozen=True, eq=False)
class Ivf:
    """A faiss index whose ids are rows of the snapshot."""

    index: Any
    probes: int  # cells read for a query
    recall: float  # of the ten most likely, at that many, when it was made
    scan_recall: float  # of the same where candidates come from a scan of all rows
    count: int = COUNT  # rows found for a query

    def search(self, query: ShrunkQuery, k: int, count: int, removed: np.ndarray | None) -> list[np.ndarray]:
        """For each query, at least `count` rows about nearest to it, none of them removed, or all that was read.

        Where that is less than k, more cells are read, but not many more.
        """
        if self.reads_whole_cells(count):
            return [self.near(key, removed, least=k) for key in query.keys]
        options = _options(nprobe=self.probes)
        if removed is not None:
            options = _options(nprobe=self.probes, sel=_bitmap(np.packbits(~removed, bitorder="little")))
        with one_thread():
            _, rows = self.index.search(np.ascontiguousarray(query.keys[:, : self.index.d]), count, params=options)
        return [line[line >= 0] for line in rows]

    def reads_whole_cells(self, count: int) -> bool:
        """Whether cells hold little more than is asked for: all is read faster than the nearest of it is found."""
        return bool(self.probes * self.index.ntotal <= ALL * count * self.index.nlist)

    def near(self, key: np.ndarray, removed: np.ndarray | None, *, least: int) -> np.ndarray:
        """Rows of the cells whose centres have the largest products with a key, but for removed ones.

        Of as many cells as `probes`, and up to `MORE` others until they hold at least so many rows.
        """
        products = self._centres @ key
        last = min(self.probes + MORE, len(products))
        order = np.argpartition(-products, last - 1)[:last]
        order = order[np.argsort(-products[order])].tolist()
        for probes in range(self.probes, last + 1):
            rows = np.concatenate([self._cells[cell] for cell in order[:probes]])
            rows = rows if removed is None else rows[~removed[rows]]
            if len(rows) >= least:
                break
        return rows

    @cached_property
    def _centres(self) -> np.ndarray:
        """The centres of the cells as rows, (L, W)."""
        quantizer = self.index.quantizer
        return rows_of(quantizer.reconstruct_n(0, quantizer.ntotal))

    @cached_property
    def _cells(self) -> list[np.ndarray]:
        """The rows of each cell."""
        cells = self.index.invlists
        return [faiss.rev_swig_ptr(cells.get_ids(n), cells.list_size(n)) for n in range(cells.nlist)]


def build_ivf(rows: np.ndarray) -> Any:
    """A faiss index of these means, (N, D) of float32, a view or a map."""
    count, dim = rows.shape
    cells = max(1, int(SHARE * count**0.5))
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatL2(dim), dim, cells, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_L2, False
    )
    index.cp.niter, index.cp.max_points_per_centroid, index.cp.min_points_per_centroid = ROUNDS, LEARN, 1
    chosen = np.random.default_rng(0).choice(count, min(count, LEARN * cells), replace=False)
    with matrix_products():
        index.train(np.ascontiguousarray(rows[np.sort(chosen)]))
        for start in range(0, count, ROWS):
            index.add(np.ascontiguousarray(rows[start : start + ROWS]))
    return index


def write_ivf(directory: Path, ivf: Ivf, *, sequence: int, of: int) -> None:
    """Write it beside the snapshot of this sequence and checksum; drop older ones."""
    name = f"snapshot-{sequence:016d}.faiss"
    data = faiss.serialize_index(ivf.index).data
    with (directory / f"{name}.new").open("wb") as file:
        file.write(data)
        publish(file, directory / name)
    numbers = {name: getattr(ivf, name) for name in ("probes", "recall", "scan_recall", "count")}
    write_manifest(directory / MANIFEST, {"file": name, "checksum": zlib.crc32(data), "of": of, **numbers})
    drop_others(directory, "snapshot-*.faiss*", name)


def read_ivf(directory: Path, of: int) -> Ivf:
    """The IVF of the snapshot with this checksum; SnapshotError if it cannot be used."""
    manifest = read_manifest(directory / MANIFEST)
    if manifest is None:
        raise SnapshotError("it is missing")
    if manifest["of"] != of:
        raise SnapshotError("it is of another snapshot")
    try:
        data = np.fromfile(directory / manifest["file"], np.uint8)
    except FileNotFoundError as error:
        raise SnapshotError("its file is missing") from error
    if zlib.crc32(data.data) != manifest["checksum"]:
        raise SnapshotError("checksum mismatch")
    numbers = {name: manifest[name] for name in ("probes", "recall", "scan_recall")}
    # Older manifests do not say the count.
    return Ivf(faiss.deserialize_index(data), **numbers, count=manifest.get("count", COUNT))
