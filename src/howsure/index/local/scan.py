"""The k nearest rows of a plain or memory-mapped array, with faiss; or those of the largest inner products."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import faiss
import numpy as np

# From this many queries on, one matrix product beats reading the rows once per query (measured at 200,000 x 129, where
# a product costs 28 ms at least, and a direct scan 6 ms per query).
BATCH = 6
# Products at a time: what stays in the cache. And the fewest rows at a time.
PRODUCTS, LEAST = 1 << 16, 512

_switch = threading.Lock()
_one_by_one: Any = vars(faiss)["fvec_inner_products_ny"]  # faiss's types do not know it


def nearest(queries: np.ndarray, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances (Q, count), ascending, and positions (Q, count) of the nearest rows; both inputs float32."""
    return _scan(queries, rows, count, faiss.METRIC_L2)


def largest_products(queries: np.ndarray, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Inner products (Q, count), descending, and positions (Q, count) of the rows that have the largest."""
    return _scan(queries, rows, count, faiss.METRIC_INNER_PRODUCT)


def nearest_means(
    queries: np.ndarray, rows: np.ndarray, count: int, *, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """As `nearest`, without the columns that are 0 in every query; a row's squared length in the others is `lengths`.

    By |query|² + |row|² - 2 query · row: the product may take whole rows, so nothing is cut out of them. A row of
    infinite length is not found; where there are no others, the position is -1.
    """
    best, twice = faiss.ResultHeap(len(queries), count), -2 * queries
    step = max(LEAST, PRODUCTS // len(queries))
    room = np.empty(len(queries) * min(step, len(rows)), np.float32)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        out = inner_products(twice, part, room[: len(queries) * len(part)].reshape(len(queries), len(part)))
        out += lengths[start : start + step]
        best.heaps.addn(len(part), faiss.swig_ptr(out), start)
    best.finalize()
    return best.D + np.square(queries, dtype=np.float64).sum(1)[:, None], best.I


def inner_products(queries: np.ndarray, rows: np.ndarray, out: np.ndarray) -> np.ndarray:
    """All inner products, in `out` (Q, N); queries, rows and each line of `out` are contiguous float32."""
    if len(queries) >= BATCH:
        return np.matmul(queries, rows.T, out=out)
    # As fast as memory is read, on this thread; a product of so few waits for threads that it does not need.
    for query, line in zip(queries, out, strict=True):
        pointers = (faiss.swig_ptr(part) for part in (line, query, rows))
        _one_by_one(*pointers, rows.shape[1], len(rows))
    return out


def _scan(queries: np.ndarray, rows: np.ndarray, count: int, metric: int) -> tuple[np.ndarray, np.ndarray]:
    # A few queries are limited by memory bandwidth, so a second thread only adds waiting.
    with matrix_products() if len(queries) >= BATCH else one_thread():
        values, positions = faiss.knn(queries, rows, count, metric)
    return values, positions


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, faiss keeps to this thread. OpenMP keeps this setting per thread."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


@contextmanager
def matrix_products() -> Iterator[None]:
    """Inside, faiss compares batches by matrix products."""
    # The threshold is global, and its default keeps batches of hundreds off the matrix product. The lock ensures that
    # it returns to what it was. A direct scan that meets the lowered value on another thread is slower, never wrong.
    with _switch:
        threshold = faiss.cvar.distance_compute_blas_threshold
        faiss.cvar.distance_compute_blas_threshold = 1
        try:
            yield
        finally:
            faiss.cvar.distance_compute_blas_threshold = threshold
