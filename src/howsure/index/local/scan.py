"""The k nearest rows of a plain or memory-mapped array, with faiss; or those of the largest inner products."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import faiss
import numpy as np

# From this many queries on, one matrix product beats reading the rows once per query (measured at 200,000 x 129, where
# a product costs 28 ms at least, and a direct scan 6 ms per query).
BATCH = 6
NORMS = 1 << 14  # rows at a time

_switch = threading.Lock()
_one_by_one: Any = vars(faiss)["fvec_inner_products_ny"]  # faiss's types do not know it


def nearest(
    queries: np.ndarray, rows: np.ndarray, count: int, *, norms: Callable[[], np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances (Q, count), ascending, and positions (Q, count) of the nearest rows; both inputs float32.

    `norms` gives the `squared_norms` of the rows to those who scan them often: a third of the time of a small batch.
    """
    if norms is None or len(queries) < BATCH:
        return _scan(queries, rows, count, faiss.METRIC_L2)
    queries, rows, squares = (np.ascontiguousarray(part) for part in (queries, rows, norms()))
    squared, positions = np.empty((len(queries), count), np.float32), np.empty((len(queries), count), np.int64)
    sizes = rows.shape[1], len(queries), len(rows), count
    out = faiss.swig_ptr(squared), faiss.swig_ptr(positions)
    with products():
        faiss.knn_L2sqr(faiss.swig_ptr(queries), faiss.swig_ptr(rows), *sizes, *out, faiss.swig_ptr(squares))
    return squared, positions


def squared_norms(rows: np.ndarray) -> np.ndarray:
    """(N,) float32."""
    parts = (rows[start : start + NORMS] for start in range(0, len(rows), NORMS))
    return np.concatenate([np.empty(0, np.float32), *(np.einsum("nd,nd->n", part, part) for part in parts)])


def largest_products(queries: np.ndarray, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Inner products (Q, count), descending, and positions (Q, count) of the rows that have the largest."""
    return _scan(queries, rows, count, faiss.METRIC_INNER_PRODUCT)


def inner_products(queries: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
    """All inner products, into `out` (Q, N); queries, rows and each line of `out` are contiguous float32."""
    if len(queries) >= BATCH:
        np.matmul(queries, rows.T, out=out)
        return
    # One row after the other, as fast as memory is read; a matrix product of so few takes a fifth longer.
    for query, line in zip(queries, out, strict=True):
        pointers = (faiss.swig_ptr(part) for part in (line, query, rows))
        _one_by_one(*pointers, rows.shape[1], len(rows))


def _scan(queries: np.ndarray, rows: np.ndarray, count: int, metric: int) -> tuple[np.ndarray, np.ndarray]:
    way = _by_product if len(queries) >= BATCH else _directly
    return way(queries, rows, count, metric)


def _directly(queries: np.ndarray, rows: np.ndarray, count: int, metric: int) -> tuple[np.ndarray, np.ndarray]:
    # Memory bandwidth is the limit, so a second thread only adds waiting.
    with one_thread():
        squared, positions = faiss.knn(queries, rows, count, metric)
    return squared, positions


def _by_product(queries: np.ndarray, rows: np.ndarray, count: int, metric: int) -> tuple[np.ndarray, np.ndarray]:
    with products():
        squared, positions = faiss.knn(queries, rows, count, metric)
    return squared, positions


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
def products() -> Iterator[None]:
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
