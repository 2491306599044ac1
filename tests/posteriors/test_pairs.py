"""Pairs as a graph, against sums over the pairs one by one."""

import numpy as np
import pytest
import torch
from torch import Tensor

from howsure.errors import InputError
from howsure.posteriors.laplace.pairs import PairGraph
from posteriors.closeness import assert_close

LABELS = torch.tensor([0, 0, 0, 1, 1, 2])


def one_by_one(positive: list[tuple[int, int]], negative: list[tuple[int, int]], size: int) -> Tensor:
    """The Hessian of Σ (z_a - z_b)²/2, positive minus negative, by autograd."""

    def loss(z: Tensor) -> Tensor:
        pull = sum(((z[a] - z[b]) ** 2 / 2 for a, b in positive), torch.tensor(0.0))
        return pull - sum(((z[a] - z[b]) ** 2 / 2 for a, b in negative), torch.tensor(0.0))

    return torch.autograd.functional.hessian(loss, torch.randn(size, dtype=torch.float64))


def all_pairs(labels: Tensor) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    every = [(a, b) for a in range(len(labels)) for b in range(a)]
    return [p for p in every if labels[p[0]] == labels[p[1]]], [p for p in every if labels[p[0]] != labels[p[1]]]


def test_every_pair_of_a_batch_counts_once() -> None:
    pairs, (positive, negative) = PairGraph.from_labels(LABELS), all_pairs(LABELS)
    assert pairs.count("full") == len(positive) + len(negative) == 15
    assert pairs.count("pos") == len(positive) == 4
    assert_close(pairs.laplacian("full"), one_by_one(positive, negative, 6))
    assert_close(pairs.laplacian("pos"), one_by_one(positive, [], 6))


@pytest.mark.parametrize("kind", ["triplets", "pairs"])
def test_mined_tuples_keep_their_multiplicity(kind: str) -> None:
    a, p, n = torch.tensor([0, 0, 1, 3, 0]), torch.tensor([1, 2, 0, 4, 1]), torch.tensor([3, 5, 5, 0, 3])
    found = (a, p, n) if kind == "triplets" else (a, p, torch.tensor([5, 4, 1, 3, 1]), n)
    pairs = PairGraph.from_mined(found, 6)
    other = a if kind == "triplets" else found[2]
    expected = one_by_one(list(zip(a, p, strict=True)), list(zip(other, n, strict=True)), 6)
    assert_close(pairs.laplacian("full"), expected)
    assert pairs.count("psd") == 10


def test_psd_cuts_off_the_negative_part_and_fix_keeps_the_diagonal() -> None:
    pairs = PairGraph.from_labels(LABELS)
    full = pairs.laplacian("full").numpy()
    values, vectors = np.linalg.eigh(full)
    assert values[0] < -1
    assert np.allclose(pairs.laplacian("psd"), (vectors * np.maximum(values, 0)) @ vectors.T)
    assert np.allclose(pairs.laplacian("fix"), np.diag(np.diag(full)))


def test_positive_pairs_are_the_within_class_scatter() -> None:
    features = torch.randn(6, 4, dtype=torch.float64)
    scatter = torch.zeros(4, 4, dtype=torch.float64)
    for label in (0, 1, 2):
        rows = features[label == LABELS]
        scatter += len(rows) * (rows - rows.mean(0)).T @ (rows - rows.mean(0))
    assert_close(features.T @ PairGraph.from_labels(LABELS).laplacian("pos") @ features, scatter)


def test_all_triplets_of_a_balanced_batch_have_the_known_spectrum() -> None:
    labels = torch.arange(10).repeat_interleave(6)
    every = torch.cartesian_prod(torch.arange(60), torch.arange(60), torch.arange(60))
    a, p, n = every[(labels[every[:, 0]] == labels[every[:, 1]]) & (every[:, 0] != every[:, 1])].T
    kept = labels[a] != labels[n]
    values = torch.linalg.eigvalsh(PairGraph.from_mined((a[kept], p[kept], n[kept]), 60).laplacian("full"))
    expected = torch.tensor([-600.0] * 9 + [0.0] + [108.0] * 50, dtype=torch.float64)
    assert_close(values, expected, atol=1e-9, rtol=1e-9)


def test_negatives_beyond_the_margin_are_dropped() -> None:
    distance = torch.full((6, 6), 2.0)
    distance[0, 3] = distance[3, 0] = 0.1
    near = PairGraph.from_labels(LABELS).within(distance, 1.0)
    assert near.negative.sum() == 2
    assert near.negative[0, 3] == 1
    assert torch.equal(near.positive, PairGraph.from_labels(LABELS).positive)


def test_what_is_no_variant_and_no_tuple() -> None:
    with pytest.raises(InputError, match="pos or psd or fix or full"):
        PairGraph.from_labels(LABELS).laplacian("best")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="triplets or pairs"):
        PairGraph.from_mined((LABELS, LABELS), 6)
