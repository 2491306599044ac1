"""Retrieval: does the ranking put items of the same label first?

Rank once (`rank`, or a search in an index), mark what is relevant (`relevance`), then measure. With `rel_i` in {0, 1}
at rank i and R relevant items in the gallery, `P(i) = (1/i) sum_{j<=i} rel_j`.
"""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from howsure.errors import InputError
from howsure.metrics import checks
from howsure.metrics.checks import Bools, Floats, Ints

Denominator: TypeAlias = Literal["min_rk", "hits", "r"]
Empty: TypeAlias = Literal["skip", "zero", "one"]


def recall_at_k(relevant: ArrayLike, k: int) -> float:
    """Share of queries with at least one relevant item among the first k.

    A query without any relevant item in the gallery counts 0; to leave such queries out, pass `relevant[total > 0]`.

    >>> recall_at_k([[True, False], [False, True]], k=1)
    0.5
    """
    return float(_first(checks.flags("relevant", relevant, ndim=2), k).any(1).mean())


def map_at_k(
    relevant: ArrayLike,
    total_relevant: ArrayLike,
    k: int,
    *,
    denominator: Denominator = "min_rk",
    empty: Empty = "skip",
) -> float:
    """Mean average precision at k: the mean over queries of `sum_{i<=k} P(i) rel_i / denominator`.

    `total_relevant` (Q,) is R. Published numbers use three denominators, and they differ a lot:
    `min_rk` = min(R, k), equal to recall at k = 1; `hits` = max(1, relevant items among the first k); `r` = R.
    A query with R = 0 is skipped, or counts 0 or 1, as `empty` says.

    >>> ranking = [[True, False, True, False, True]]
    >>> [round(map_at_k(ranking, [3], 2, denominator=d), 3) for d in ("hits", "min_rk", "r")]
    [1.0, 0.5, 0.333]
    """
    checks.choice("denominator", denominator, Denominator)
    rel, total = _checked(relevant, total_relevant)
    first = _first(rel, k)
    found: Ints = first.sum(1).astype(np.int64)
    divisor = {"min_rk": np.minimum(total, k), "hits": found, "r": total}[denominator]
    return _mean(_precision_sum(first) / np.maximum(divisor, 1), total, empty)


def map_at_r(relevant: ArrayLike, total_relevant: ArrayLike, *, empty: Empty = "skip") -> float:
    """Mean average precision at R: k is each query's own R, and so is the denominator.

    >>> map_at_r([[True, False, True]], [2])
    0.5
    """
    rel, total = _checked(relevant, total_relevant)
    _first(rel, max(int(total.max()), 1))
    within = np.arange(1, rel.shape[1] + 1) <= total[:, None]
    return _mean(_precision_sum(rel & within) / np.maximum(total, 1), total, empty)


def _checked(relevant: ArrayLike, total_relevant: ArrayLike) -> tuple[Bools, Ints]:
    rel = checks.flags("relevant", relevant, ndim=2)
    total = checks.numeric("total_relevant", total_relevant)
    checks.same_length(relevant=rel, total_relevant=total)
    found = rel.sum(1)
    if total.dtype.kind not in "iu" or (total < found).any():
        got = f"dtype {total.dtype}, {int((total < found).sum())} queries with fewer than were found"
        fix = "count over the whole gallery, without the query itself (relevant_count)"
        raise InputError("total_relevant", expected="whole numbers, at least those in the ranking", got=got, fix=fix)
    return rel, total.astype(np.int64)


def _first(relevant: Bools, k: int) -> Bools:
    """The first k ranks, which must be there: missing ranks would count as misses."""
    k = checks.positive_int("k", k)
    if k > relevant.shape[1]:
        fix = f"rank at least {k} neighbours, and one more when queries are in the gallery"
        raise InputError("relevant", expected=f"at least {k} ranks", got=f"{relevant.shape[1]}", fix=fix)
    return relevant[:, :k]


def _precision_sum(relevant: Bools) -> Floats:
    """`sum_i P(i) rel_i` for each query (Q,)."""
    precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
    return (precision * relevant).sum(1)


def _mean(per_query: Floats, total: Ints, empty: Empty) -> float:
    """The mean over queries, with the chosen convention for those without relevant items."""
    checks.choice("empty", empty, Empty)
    has_any = total > 0
    if empty == "skip":
        if not has_any.any():
            fix = "check ids and labels, or choose empty='zero' or 'one'"
            raise InputError("total_relevant", expected="a query with a relevant item", got="none", fix=fix)
        return float(per_query[has_any].mean())
    return float(np.where(has_any, per_query, {"zero": 0.0, "one": 1.0}[empty]).mean())
