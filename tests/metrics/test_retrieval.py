"""Recall and mean average precision against loops, and the differences of the conventions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from howsure.errors import InputError
from howsure.metrics import map_at_k, map_at_r, recall_at_k

RANKING = [[1, 0, 1, 0, 1]]
relevances = arrays(np.bool_, st.tuples(st.integers(1, 5), st.integers(1, 7)))


def brute_force(relevant, total, k, denominator, empty):
    values = []
    for row, r in zip(relevant, total, strict=True):
        if r == 0:
            values += {"skip": [], "zero": [0.0], "one": [1.0]}[empty]
            continue
        hits, found = 0, 0.0
        for i, hit in enumerate(row[:k], start=1):
            if hit:
                hits += 1
                found += hits / i
        values.append(found / {"min_rk": min(r, k), "hits": max(1, hits), "r": r}[denominator])
    return sum(values) / len(values)


@pytest.mark.parametrize(("denominator", "value"), [("hits", 1.0), ("min_rk", 0.5), ("r", 1 / 3)])
def test_three_denominators_on_one_ranking(denominator, value):
    assert map_at_k(RANKING, [3], 2, denominator=denominator) == pytest.approx(value)


@pytest.mark.parametrize(("empty", "value"), [("skip", 1.0), ("zero", 0.5), ("one", 1.0)])
def test_a_query_without_relevant_items(empty, value):
    relevant, total = [[1, 0], [0, 0]], [1, 0]
    assert map_at_k(relevant, total, 1, empty=empty) == value
    assert map_at_r(relevant, total, empty=empty) == value


def test_skip_and_one_differ_when_the_rest_is_imperfect():
    relevant, total = [[0, 1], [0, 0]], [1, 0]
    found = {empty: map_at_k(relevant, total, 2, empty=empty) for empty in ("skip", "zero", "one")}
    assert found == {"skip": 0.5, "zero": 0.25, "one": 0.75}


@settings(deadline=None)
@given(relevances, st.data())
def test_map_against_a_loop(relevant, data):
    queries, width = relevant.shape
    more = np.array(data.draw(st.lists(st.integers(0, 3), min_size=queries, max_size=queries)))
    k = data.draw(st.integers(1, width))
    denominator = data.draw(st.sampled_from(["min_rk", "hits", "r"]))
    empty = data.draw(st.sampled_from(["zero", "one"]))
    total = relevant.sum(1) + more
    expected = brute_force(relevant, total, k, denominator, empty)
    assert map_at_k(relevant, total, k, denominator=denominator, empty=empty) == pytest.approx(expected)
    if (total > 0).any():
        expected = brute_force(relevant, total, k, denominator, "skip")
        assert map_at_k(relevant, total, k, denominator=denominator) == pytest.approx(expected)


@settings(deadline=None)
@given(relevances)
def test_map_at_r_is_map_at_k_query_by_query(relevant):
    total = relevant.sum(1)
    per_query = [brute_force([row], [r], r, "r", "zero") if r else 0.0 for row, r in zip(relevant, total, strict=True)]
    assert map_at_r(relevant, total, empty="zero") == pytest.approx(np.mean(per_query))


@settings(deadline=None)
@given(relevances, st.data())
def test_recall_against_a_loop_and_growing_with_k(relevant, data):
    k = data.draw(st.integers(1, relevant.shape[1]))
    assert recall_at_k(relevant, k) == pytest.approx(np.mean([any(row[:k]) for row in relevant]))
    assert recall_at_k(relevant, 1) <= recall_at_k(relevant, k)


@settings(deadline=None)
@given(relevances)
def test_at_one_the_default_is_recall(relevant):
    total = relevant.sum(1) + 1
    assert map_at_k(relevant, total, 1) == pytest.approx(recall_at_k(relevant, 1))


def test_direction_earlier_hits_are_better():
    early, late, total = [[1, 1, 0, 0]], [[0, 0, 1, 1]], [2]
    assert recall_at_k(early, 2) > recall_at_k(late, 2)
    assert map_at_r(early, total) > map_at_r(late, total)
    for denominator in ("min_rk", "hits", "r"):
        assert map_at_k(early, total, 4, denominator=denominator) > map_at_k(late, total, 4, denominator=denominator)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: recall_at_k(RANKING, 0), "at least 1"),
        (lambda: recall_at_k(RANKING, 6), "at least 6 ranks, got 5"),
        (lambda: recall_at_k([[0.5, 1.0]], 1), "booleans"),
        (lambda: recall_at_k([1, 0], 1), "2 axes"),
        (lambda: recall_at_k(np.zeros((0, 3), bool), 1), "at least one value"),
        (lambda: map_at_k(RANKING, [2], 2), "fewer than were found"),
        (lambda: map_at_k(RANKING, [3.0], 2), "whole numbers"),
        (lambda: map_at_k(RANKING, [3, 3], 2), "one entry per item"),
        (lambda: map_at_k(RANKING, [3], 2, denominator="k"), "'min_rk' or 'hits' or 'r'"),
        (lambda: map_at_k(RANKING, [3], 2, empty="drop"), "'skip' or 'zero' or 'one'"),
        (lambda: map_at_k([[0, 0]], [0], 2), "a query with a relevant item"),
        (lambda: map_at_r(RANKING, [6]), "at least 6 ranks, got 5"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call()
