"""Identities on real pictures: handwritten digits, some of them spoilt, with embeddings that know how much."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from howsure import Gaussian, Point, cat, rms_distance
from howsure.errors import InputError
from howsure.index import LocalIndex
from howsure.index.identities import best_pictures, identities


def spoilt_digits(seed=0):
    """Pixels with noise of very different strength, and embeddings that know it, beside what varies between writers."""
    digits, rng = load_digits(), np.random.default_rng(seed)
    noise = rng.choice([0.02, 0.1, 0.8], size=(len(digits.data), 1))
    pixels = digits.data / 16 + noise * rng.normal(size=digits.data.shape)
    embedding = Gaussian(torch.from_numpy(pixels), torch.from_numpy(np.sqrt(noise**2 + 0.2**2)))
    order = rng.permutation(len(pixels))
    gallery, query = order[:600], order[600:1200]
    return embedding[gallery], digits.target[gallery], embedding[query], digits.target[query]


def accuracy(distance, gallery_labels, labels):
    return float(np.mean(np.asarray(gallery_labels)[distance.argmin(1).numpy()] == labels))


def test_identities_weigh_pictures_by_their_confidence():
    gallery, names, query, labels = spoilt_digits()
    few = np.concatenate([np.flatnonzero(names == digit)[:6] for digit in range(10)])
    groups = torch.from_numpy(names[few]).long()
    ours = gallery[few].fused(groups)
    plain = Point(gallery[few].location).fused(groups)
    by_confidence, by_mean = (
        accuracy(rms_distance(Point(query.location), points), range(10), labels) for points in (Point(ours.mean), plain)
    )
    assert by_confidence > by_mean + 0.02


def test_the_chosen_pictures_identify_better_than_others():
    gallery, names, query, labels = spoilt_digits(seed=1)

    def judged(positions):
        return accuracy(rms_distance(query, gallery[positions]), names[positions], labels)

    chosen = best_pictures(gallery, names.tolist(), 5)
    assert len(chosen) == 50
    assert chosen == sorted(chosen)
    assert np.bincount(names[chosen]).tolist() == [5] * 10
    rng = np.random.default_rng(0)
    lots = [
        judged(np.concatenate([rng.choice(np.flatnonzero(names == digit), 5, replace=False) for digit in range(10)]))
        for _ in range(10)
    ]
    surest = np.concatenate(
        [
            members[np.argsort(gallery.uncertainty.numpy()[members])[:5]]
            for members in (np.flatnonzero(names == d) for d in range(10))
        ]
    )
    assert judged(chosen) > max(lots)
    assert judged(chosen) > judged(surest) + 0.01


def test_choosing_is_greedy_by_brute_force():
    generator = torch.Generator().manual_seed(0)
    embedding = Gaussian(torch.randn(9, 2, generator=generator), torch.rand(9, 1, generator=generator))
    distance = rms_distance(embedding.to(dtype=torch.float64), embedding.to(dtype=torch.float64))
    taken = []
    for _ in range(4):
        cost = {n: sum(float(distance[[*taken, n], j].min()) for j in range(9)) for n in range(9) if n not in taken}
        taken.append(min(cost, key=cost.get))
    assert best_pictures(embedding, ["a"] * 9, 4) == sorted(taken)
    assert best_pictures(embedding, list("aabbbbbbb"), 20) == list(range(9))


def test_a_gallery_of_identities(path, tmp_path):
    generator = torch.Generator().manual_seed(0)
    pictures = Gaussian(torch.randn(7, 3, generator=generator), 0.1 + torch.rand(7, 1, generator=generator))
    with LocalIndex.create(path) as index, LocalIndex.create(tmp_path / "identities") as whole:
        index.add(["x"], pictures[6:])
        with pytest.raises(InputError, match="gallery: expected items with labels"):
            identities(index)
        index.add(list("abcdef"), pictures[:6], labels=["one", "two", "one", None, "two", "one"])
        labels, embeddings = identities(index)
        assert labels == ["one", "two"]
        alone = cat([pictures[0], pictures[2], pictures[5]]).fused(torch.zeros(3, dtype=torch.long))
        torch.testing.assert_close(embeddings[:1].mean, alone.mean)
        torch.testing.assert_close(embeddings[:1].variance, alone.variance)
        whole.add(labels, embeddings, labels=labels)
        assert whole.search(alone, 1).ids.tolist() == [["one"]]


def test_bad_requests_are_refused():
    for labels, k, message in (([1], 1, "labels: expected 2"), ([1, 2], 0, "k: expected 1 or more")):
        with pytest.raises(InputError, match=message):
            best_pictures(Point(torch.zeros(2, 1)), labels, k)
