"""Clusters: against scipy, against brute force, and on digits some of which are spoiled."""

import numpy as np
import pytest
import torch
from scipy.cluster import hierarchy
from scipy.spatial.distance import pdist, squareform

from howsure.embeddings import Gaussian, Point
from howsure.errors import InputError
from howsure.match import Matcher
from howsure.metrics import b_cubed, pairwise_f
from howsure.tasks.clustering import cluster_tree, cut_for, linkage


def brute_force(distance: np.ndarray, weights: np.ndarray, wanted: int) -> list[list[int]]:
    """Join the two clusters with the least weighted mean distance, until `wanted` are left."""
    clusters = [[i] for i in range(len(distance))]
    while len(clusters) > wanted:
        pairs = [(i, j) for i in range(len(clusters)) for j in range(i)]
        gaps = [
            np.average(
                distance[np.ix_(clusters[i], clusters[j])], weights=np.outer(weights[clusters[i]], weights[clusters[j]])
            )
            for i, j in pairs
        ]
        i, j = pairs[int(np.argmin(gaps))]
        clusters[j] += clusters.pop(i)
    return clusters


def test_equal_weights_are_average_linkage() -> None:
    points = np.random.default_rng(0).normal(size=(60, 3))
    ours, theirs = linkage(squareform(pdist(points)), np.ones(60)), hierarchy.linkage(pdist(points), "average")
    np.testing.assert_allclose(ours, theirs)
    np.testing.assert_allclose(linkage(squareform(pdist(points)), np.full(60, 7.0)), theirs)


@pytest.mark.parametrize("seed", range(3))
def test_weights_against_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distance, weights = squareform(pdist(rng.normal(size=(16, 2)))), rng.uniform(0.01, 5, 16)
    found = hierarchy.fcluster(linkage(distance, weights), 4, criterion="maxclust")
    wanted = brute_force(distance, weights, 4)
    assert {tuple(sorted(one)) for one in wanted} == {tuple(np.flatnonzero(found == one)) for one in set(found)}


def test_ties_and_copies_end() -> None:
    assert linkage(np.zeros((9, 9)), np.ones(9))[:, 2].tolist() == [0] * 8
    grid = squareform(pdist(np.array([[x, y] for x in range(4) for y in range(4)], float)))
    np.testing.assert_allclose(np.sort(linkage(grid, np.ones(len(grid)))[:, 2])[:8], 1)


def test_clusters_are_numbered_by_size_and_a_cut_separates() -> None:
    location = torch.tensor([[0.0], [0.1], [5.0], [5.1], [5.2], [9.0]])
    tree = cluster_tree(Point(location))
    assert tree.cut(1.0).tolist() == [1, 1, 0, 0, 0, 2]
    assert tree.cut(0.01).tolist() == [0, 1, 2, 3, 4, 5]
    assert tree.cut(100).tolist() == [0] * 6
    cut = tree.best_cut(["a", "a", "b", "b", "b", "c"])
    assert tree.cut(cut).tolist() == [1, 1, 0, 0, 0, 2]


def test_an_uncertain_item_joins_last_or_stays_alone() -> None:
    # Between two clusters there is one that would tie them together.
    location = torch.tensor([[0.0], [0.1], [1.1], [2.0], [2.1], [0.05]])
    sure = torch.full((6, 1), 0.1)
    uncertain = sure.clone()
    uncertain[2] = 0.2
    embedding = Gaussian(location, uncertain)
    assert cluster_tree(embedding).cut(1.0).tolist() == [0, 0, 1, 1, 1, 0]
    assert cluster_tree(embedding).cut(0.8).tolist() == [0, 0, 2, 1, 1, 0]
    uncertain[2] = 0.6  # so uncertain that it may be of either
    assert cluster_tree(Gaussian(location, uncertain)).cut(1.0).tolist() == [0, 0, 2, 1, 1, 0]
    # Points, and embeddings whose uncertainties are all the same, are the unweighted case.
    for same in (Point(location), Gaussian(location, sure)):
        assert (cluster_tree(same).joins == cluster_tree(embedding, weighted=False).joins).all()


@pytest.mark.parametrize(("distance", "weights"), [(np.zeros((2, 3)), None), (np.zeros((2, 2)), np.array([1.0, 0.0]))])
def test_wrong_input_is_refused(distance: np.ndarray, weights: np.ndarray | None) -> None:
    with pytest.raises(InputError):
        linkage(distance, weights)
    with pytest.raises(InputError, match="two items"):
        cluster_tree(Point(torch.zeros(1, 2)))


def test_the_cut_of_a_matcher_is_where_it_says_so() -> None:
    matcher = Matcher(scale=2.0, offset=3.0, base_rate=0.5)
    bare = Point(torch.zeros(4, 2))
    distance = cut_for(matcher, bare, probability=0.8)
    assert float(matcher.probability(torch.tensor(distance))) == pytest.approx(0.8)
    uncertain = Gaussian(torch.zeros(4, 2), torch.full((4, 1), 0.3))
    both = float((torch.tensor(cut_for(matcher, uncertain, probability=0.8)) ** 2 + 4 * 0.3**2).sqrt())
    assert both == pytest.approx(distance)
    assert cut_for(matcher, bare, probability=0.999) == 0
    with pytest.raises(InputError, match="probability"):
        cut_for(matcher, bare, probability=1.0)


def test_confidence_helps_where_it_is_true() -> None:
    """Forty identities, pictures as far off as they say."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 8)
    off = np.where(rng.random(len(labels)) < 0.3, 1.2, 0.1)
    location = rng.normal(size=(40, 6))[labels] + off[:, None] * rng.normal(size=(len(labels), 6))
    embedding = Gaussian(torch.from_numpy(location), torch.from_numpy(off[:, None]))
    found = {}
    for weighted in (True, False):
        tree = cluster_tree(embedding, weighted=weighted)
        found[weighted] = b_cubed(labels, tree.cut(tree.best_cut(labels))).f
    assert found[True] > found[False] + 0.02


def test_confidence_helps_where_some_digits_are_spoiled(digits) -> None:
    """How near is near enough comes from one half, the other half is judged; means over four ways to part them."""
    gains = []
    for seed in range(4):
        judged = np.random.default_rng(seed).random(len(digits.labels)) < 0.5
        found = {}
        for weighted in (True, False):
            cut = cluster_tree(digits.mixed[~judged], weighted=weighted).best_cut(digits.labels[~judged])
            clusters = cluster_tree(digits.mixed[judged], weighted=weighted).cut(cut)
            found[weighted] = [measure(digits.labels[judged], clusters).f for measure in (b_cubed, pairwise_f)]
        gains.append(np.subtract(found[True], found[False]))
    by_item, by_pair = np.mean(gains, 0)
    assert by_pair > 0
    assert by_item > -0.02  # by items nothing is gained
