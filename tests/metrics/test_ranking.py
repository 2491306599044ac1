"""Rankings against a plain sort, and self matches wherever they stand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from howsure.errors import InputError
from howsure.metrics import majority, rank, recall_at_k, relevance, relevant_count

# few distinct values, so that ties are the rule
tied_matrices = arrays(
    np.float32, st.tuples(st.integers(1, 5), st.integers(2, 9)), elements=st.sampled_from([0, 1, 2, 3])
)


@settings(deadline=None)
@given(tied_matrices, st.data())
def test_rank_is_a_stable_sort_without_the_excluded(distances, data):
    queries, gallery = distances.shape
    exclude = data.draw(st.lists(st.integers(-1, gallery - 1), min_size=queries, max_size=queries))
    k = data.draw(st.integers(1, gallery - 1))
    expected = [
        sorted((j for j in range(gallery) if j != own), key=lambda j, row=row: (row[j], j))[:k]
        for row, own in zip(distances, exclude, strict=True)
    ]
    assert rank(distances, k, exclude=exclude).tolist() == expected


@settings(deadline=None)
@given(tied_matrices)
def test_blocks_of_queries_give_the_same_ranking(distances):
    blocks = np.concatenate([rank(distances[i : i + 1], 2) for i in range(len(distances))])
    np.testing.assert_array_equal(rank(distances, 2), blocks)


def test_rank_leaves_the_distances_alone_and_takes_whole_numbers():
    distances = np.array([[0, 5, 1]])
    assert rank(distances, 2, exclude=[0]).tolist() == [[2, 1]]
    assert distances.tolist() == [[0, 5, 1]]


def test_the_whole_gallery_can_be_ranked_when_nobody_is_excluded():
    assert rank([[2.0, 1.0]], 2, exclude=[-1]).tolist() == [[1, 0]]
    with pytest.raises(InputError, match="at most 1 for a gallery of 2"):
        rank([[2.0, 1.0]], 2, exclude=[0])


@pytest.mark.parametrize(
    ("distances", "k", "exclude", "message"),
    [
        ([[1.0, 2.0]], 0, None, "at least 1"),
        ([[1.0, 2.0]], 1.5, None, "whole number"),
        ([[1.0, 2.0]], 3, None, "at most 2"),
        ([[1.0, np.inf]], 1, None, "finite"),
        ([[1.0, np.nan]], 1, None, "NaN"),
        ([[1.0, 2.0]], 1, [2], "from -1"),
        ([[1.0, 2.0]], 1, [0.0], "whole positions"),
        ([[1.0, 2.0]], 1, [0, 1], "one entry per item"),
    ],
)
def test_rank_refuses(distances, k, exclude, message):
    with pytest.raises(InputError, match=message):
        rank(distances, k, exclude=exclude)


def test_the_query_is_dropped_by_id_not_by_rank():
    # the duplicate picture 7 outranks the query itself; dropping rank 0 would keep the query as a false hit
    ids, labels = [[7, 1, 2]], [["cat", "cat", "dog"]]
    assert relevance(ids, labels, query_ids=[1], query_labels=["cat"]).tolist() == [[True, False]]
    ids, labels = [[7, 1, 2]], [["dog", "cat", "dog"]]
    assert recall_at_k(relevance(ids, labels, query_ids=[1], query_labels=["cat"]), 1) == 0.0


def test_no_rank_is_lost_when_no_query_is_in_the_gallery():
    rel = relevance([[0, 1]], [["a", "b"]], query_ids=[9], query_labels=["b"])
    assert rel.tolist() == [[False, True]]


def test_every_query_keeps_the_same_number_of_real_neighbours():
    rel = relevance([[0, 1, 2], [0, 1, 2]], [[5, 5, 5]] * 2, query_ids=[0, 9], query_labels=[5, 5])
    assert rel.tolist() == [[True, True], [True, True]]


@settings(deadline=None)
@given(st.data())
def test_relevance_and_count_agree_with_a_loop(data):
    gallery, queries = data.draw(st.integers(2, 8)), data.draw(st.integers(1, 5))
    labels = np.array(data.draw(st.lists(st.sampled_from("abc"), min_size=gallery, max_size=gallery)))
    own = np.array(data.draw(st.lists(st.integers(0, gallery + 2), min_size=queries, max_size=queries)))  # some outside
    own_labels = np.array(data.draw(st.lists(st.sampled_from("abcd"), min_size=queries, max_size=queries)))
    ranked = np.array([data.draw(st.permutations(range(gallery))) for _ in own])
    expected = [
        [labels[i] == label for i in row if i != me] for row, me, label in zip(ranked, own, own_labels, strict=True)
    ]
    rel = relevance(ranked, labels[ranked], query_ids=own, query_labels=own_labels)
    assert rel.shape[1] == min(map(len, expected))
    assert rel.tolist() == [row[: rel.shape[1]] for row in expected]
    total = relevant_count(own_labels, labels, query_ids=own, gallery_ids=np.arange(gallery))
    assert total.tolist() == [sum(row) for row in expected]


def test_text_never_meets_numbers():
    with pytest.raises(InputError, match="ranked_ids and query_ids"):
        relevance([["1", "2"]], [[0, 0]], query_ids=[1], query_labels=[0])
    with pytest.raises(InputError, match="ranked_labels and query_labels"):
        relevance([[1, 2]], [["0", "0"]], query_ids=[1], query_labels=[0])
    with pytest.raises(InputError, match="gallery_ids and query_ids"):
        relevant_count([0], [0], query_ids=["0"], gallery_ids=[0])
    with pytest.raises(InputError, match="gallery_labels and query_labels"):
        relevant_count(["0"], [0], query_ids=[0], gallery_ids=[0])


def test_text_may_come_as_objects():
    ids = np.array([["a", "b"]], dtype=object)
    assert relevance(ids, [[1, 1]], query_ids=["a"], query_labels=[1]).tolist() == [[True]]
    with pytest.raises(InputError, match="numbers"):
        relevance(np.array([["a", None]]), [[1, 1]], query_ids=["a"], query_labels=[1])


def test_a_query_that_finds_only_itself_is_an_error():
    with pytest.raises(InputError, match="only finds itself"):
        relevance([[3]], [[0]], query_ids=[3], query_labels=[0])


def test_shapes_must_agree():
    with pytest.raises(InputError, match="as ranked_ids"):
        relevance([[1, 2]], [[0]], query_ids=[1], query_labels=[0])
    with pytest.raises(InputError, match="one entry per item"):
        relevance([[1, 2]], [[0, 0]], query_ids=[1, 2], query_labels=[0])
    with pytest.raises(InputError, match="one entry per item"):
        relevant_count([0], [0, 1], query_ids=[0], gallery_ids=[0])


def test_majority_is_the_mode_and_ties_go_to_the_nearest() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=(200, 5))
    expected = []
    for row in labels.tolist():
        most = max(row.count(label) for label in row)
        expected.append(next(label for label in row if row.count(label) == most))
    assert majority(labels).tolist() == expected


def test_majority_of_nobody_is_refused() -> None:
    with pytest.raises(InputError, match="nearest first"):
        majority(np.zeros((3, 0)))
