"""Agreement of clusters with labels, against brute force over items and pairs."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.cluster import pair_confusion_matrix

from howsure.errors import InputError
from howsure.metrics import b_cubed, pairwise_f

CASES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12)


@given(CASES)
def test_b_cubed_item_by_item(case: list[tuple[int, int]]) -> None:
    labels, clusters = map(np.array, zip(*case, strict=True))
    precision = [np.mean(labels[clusters == c] == label) for label, c in case]
    recall = [np.mean(clusters[labels == label] == c) for label, c in case]
    found = b_cubed(labels, clusters)
    assert (found.precision, found.recall) == pytest.approx((np.mean(precision), np.mean(recall)))
    assert found.f == pytest.approx(2 / (1 / np.mean(precision) + 1 / np.mean(recall)))


@given(CASES)
def test_pairwise_f_pair_by_pair(case: list[tuple[int, int]]) -> None:
    pairs = [(a[0] == b[0], a[1] == b[1]) for a, b in combinations(case, 2)]
    together, alike = ([pair for pair in pairs if pair[which]] for which in (1, 0))
    found = pairwise_f(*zip(*case, strict=True))
    assert found.precision == pytest.approx(np.mean([alike for alike, _ in together]) if together else 1)
    assert found.recall == pytest.approx(np.mean([both for _, both in alike]) if alike else 1)


def test_pairwise_f_against_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    labels, clusters = rng.integers(8, size=300), rng.integers(5, size=300)
    (_, wrong), (missed, right) = pair_confusion_matrix(labels, clusters)
    found = pairwise_f(labels, clusters)
    assert (found.precision, found.recall) == pytest.approx((right / (right + wrong), right / (right + missed)))


@pytest.mark.parametrize("measure", [b_cubed, pairwise_f])
def test_the_better_clustering_has_the_larger_number(measure) -> None:
    labels = ["a", "a", "a", "b", "b", "c"]
    perfect, names = measure(labels, [0, 0, 0, 1, 1, 2]), measure(labels, ["z", "z", "z", "x", "x", "y"])
    assert (perfect.precision, perfect.recall, perfect.f) == (1, 1, 1)
    assert perfect == names  # what a cluster is called does not matter
    assert measure(labels, [0, 0, 1, 2, 2, 3]).f < 1
    assert measure(labels, [0] * 6).recall == 1
    assert measure(labels, range(6)).precision == 1
    assert measure(labels, [0, 0, 0, 0, 1, 2]).f < measure(labels, [0, 0, 0, 1, 1, 2]).f


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InputError, match="one entry per item"):
        b_cubed(["a", "b"], [0])
    with pytest.raises(InputError, match="at least one value"):
        pairwise_f([], [])
