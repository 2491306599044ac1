"""Rankings: who is near, and which of them carry the query's label.

Ranking happens once; every number in `retrieval` is computed from its outcome.
"""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import InputError
from howsure.metrics import checks
from howsure.metrics.checks import Bools, Ints


def rank(distances: ArrayLike, k: int, *, exclude: ArrayLike | None = None) -> Ints:
    """The gallery positions (Q, k) of the k smallest distances (Q, G), nearest first.

    Ties go to the smaller gallery position. `exclude` (Q,) names one position per query that may not appear, or -1 for
    none: the query itself, in leave-one-out evaluation. Rows do not see each other, so pass blocks of queries when
    (Q, G) is too large. Negate similarities.

    >>> rank([[3.0, 1.0, 1.0, 2.0]], k=2).tolist(), rank([[3.0, 1.0, 1.0, 2.0]], k=2, exclude=[1]).tolist()
    ([[1, 2]], [[2, 3]])
    """
    d = checks.numeric("distances", distances, ndim=2)
    if not np.isfinite(d).all():
        raise InputError("distances", expected="finite numbers", got="infinity")
    k = checks.positive_int("k", k)
    if exclude is not None:
        d = _without(d, exclude)
    available = d.shape[1] - int(np.isinf(d).any())
    if k > available:
        fix = "ask for fewer; an excluded position is never a neighbour"
        raise InputError("k", expected=f"at most {available} for a gallery of {d.shape[1]}", got=str(k), fix=fix)
    kth = np.partition(d, k - 1, axis=1)[:, k - 1 : k]  # (Q, 1)
    nearer, tied = d < kth, d == kth
    room = k - nearer.sum(1, keepdims=True)
    # int32 and flat positions: ten times faster than cumsum and nonzero as they come
    chosen = nearer | (tied & (np.cumsum(tied, axis=1, dtype=np.int32) <= room))  # exactly k per row
    positions = (np.flatnonzero(chosen) % d.shape[1]).reshape(len(d), k)
    order = np.argsort(np.take_along_axis(d, positions, 1), axis=1, kind="stable")
    return np.take_along_axis(positions, order, 1).astype(np.int64)


def _without(d: NDArray[Any], exclude: ArrayLike) -> NDArray[Any]:
    """A copy where each query's own position is farther than everything else."""
    own = checks.numeric("exclude", exclude)
    checks.same_length(distances=d, exclude=own)
    if own.dtype.kind not in "iu" or own.min() < -1 or own.max() >= d.shape[1]:
        expected = f"whole positions from -1 (none) to {d.shape[1] - 1}"
        raise InputError("exclude", expected=expected, got=f"{own.dtype} from {own.min()} to {own.max()}")
    far = d.astype(d.dtype if d.dtype.kind == "f" else np.float64)
    rows = np.flatnonzero(own >= 0)
    far[rows, own[rows]] = np.inf
    return far


def relevance(
    ranked_ids: ArrayLike, ranked_labels: ArrayLike, *, query_ids: ArrayLike, query_labels: ArrayLike
) -> Bools:
    """Which ranked items carry the query's label: bool (Q, k'), best rank first, the query itself left out.

    A query is recognised by its id wherever it stands: a duplicate picture may well take rank 0. What follows moves up.
    k' is the number of ranks that every query still has: k, or k - 1 as soon as one query met itself. Every entry is
    thus a real neighbour, none is padding. Ask a search for one neighbour more than you want to measure.

    >>> ids, labels = [["twin", "a", "b"], ["b", "c", "a"]], [["x", "x", "y"], ["y", "y", "x"]]
    >>> relevance(ids, labels, query_ids=["a", "b"], query_labels=["x", "y"]).tolist()
    [[True, False], [True, False]]
    """
    ids, labels = checks.names("ranked_ids", ranked_ids, ndim=2), checks.names("ranked_labels", ranked_labels, ndim=2)
    own_id, own_label = checks.names("query_ids", query_ids), checks.names("query_labels", query_labels)
    checks.same_length(ranked_ids=ids, query_ids=own_id, query_labels=own_label)
    if ids.shape != labels.shape:
        raise InputError("ranked_labels", expected=f"{ids.shape}, as ranked_ids", got=f"{labels.shape}")
    checks.comparable("ranked_ids and query_ids", ids, own_id)
    checks.comparable("ranked_labels and query_labels", labels, own_label)
    others = ids != own_id[:, None]
    width = int(others.sum(1).min())
    if width == 0:
        fix = "rank at least one neighbour more"
        raise InputError(
            "ranked_ids", expected="a neighbour for every query", got="a query that only finds itself", fix=fix
        )
    order = np.argsort(~others, axis=1, kind="stable")[:, :width]
    return np.take_along_axis(labels == own_label[:, None], order, 1)


def relevant_count(
    query_labels: ArrayLike, gallery_labels: ArrayLike, *, query_ids: ArrayLike, gallery_ids: ArrayLike
) -> Ints:
    """R for every query (Q,): gallery items with its label, not counting the query itself, which is known by its id.

    >>> relevant_count(["x", "y"], ["x", "x", "y"], query_ids=[0, 9], gallery_ids=[0, 1, 2]).tolist()
    [1, 1]
    """
    labels, own_label = checks.names("gallery_labels", gallery_labels), checks.names("query_labels", query_labels)
    ids, own_id = checks.names("gallery_ids", gallery_ids), checks.names("query_ids", query_ids)
    checks.same_length(query_labels=own_label, query_ids=own_id)
    checks.same_length(gallery_labels=labels, gallery_ids=ids)
    checks.comparable("gallery_labels and query_labels", labels, own_label)
    checks.comparable("gallery_ids and query_ids", ids, own_id)
    alike, itself = Counter(labels.tolist()), Counter(zip(labels.tolist(), ids.tolist(), strict=True))
    queries = zip(own_label.tolist(), own_id.tolist(), strict=True)
    return np.array([alike[label] - itself[label, name] for label, name in queries], np.int64)


def majority(ranked_labels: ArrayLike) -> NDArray[Any]:
    """The label that most of each query's neighbours carry, (Q, k) to (Q,); among equals that of the nearest.

    >>> majority([[7, 3, 3], [1, 2, 3]]).tolist()
    [3, 1]
    """
    labels = np.asarray(ranked_labels)
    if labels.ndim != 2 or not labels.shape[1]:
        raise InputError("ranked labels", expected="(Q, k), nearest first", got=str(labels.shape))
    count = (labels[:, :, None] == labels[:, None, :]).sum(2)
    return np.take_along_axis(labels, count.argmax(1)[:, None], 1)[:, 0]
