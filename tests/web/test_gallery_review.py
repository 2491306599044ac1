"""Neighbours against brute force, and what they show where the answer is known."""

import numpy as np
import pytest
import torch

from howsure import Gaussian
from howsure.compare import rms_distance
from howsure.match import Matcher
from howsure.web.gallery_review import NEAREST, codes_of, review

MATCHER = Matcher(scale=4.0, offset=4.0, base_rate=0.1)


def go_on() -> None:
    return None


def test_neighbours_are_those_of_a_full_comparison(clusters):
    embedding, labels = clusters
    around = review(embedding, codes_of(labels)[0], go_on=go_on)
    distance = rms_distance(embedding.to(dtype=torch.float64), embedding.to(dtype=torch.float64)).numpy()
    np.fill_diagonal(distance, np.inf)
    np.testing.assert_allclose(around.distances, np.sort(distance, 1)[:, :NEAREST], rtol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(distance, around.rows, 1), around.distances, rtol=1e-6)
    mean = embedding.mean.double().numpy()
    np.testing.assert_allclose(around.gaps[:, 0], np.linalg.norm(mean - mean[around.rows[:, 0]], axis=1))


def test_a_wrong_label_and_a_copy_are_found_and_nothing_else(clusters):
    embedding, labels = clusters
    codes, names = codes_of(labels)
    around = review(embedding, codes, go_on=go_on)
    ((row, suggested, probability),) = around.label_errors(MATCHER)
    assert (row, names[suggested]) == (7, "0")
    assert 0.5 < probability <= 1
    assert around.errors()[7]
    assert [pair[:2] for pair in around.twins()] == [(20, 21)]
    confirmed = around.label_probability(MATCHER)
    assert confirmed.argmin() == 7
    assert confirmed[20] == pytest.approx(float(MATCHER.probability(torch.tensor(around.distances[20, 0]))))


def test_without_labels_there_are_no_label_errors(clusters):
    embedding, _ = clusters
    around = review(embedding[:30], codes_of([None] * 30)[0], go_on=go_on)
    assert around.errors() is None
    assert around.label_errors(MATCHER) == []
    assert np.isnan(around.label_probability(MATCHER)).all()
    assert len(around.twins()) == 1


def test_two_items_and_many_at_one_point():
    pair = review(Gaussian(torch.eye(2), torch.ones(2, 1)), np.array([0, 0]), go_on=go_on)
    assert pair.rows.tolist() == [[1], [0]]
    same = review(Gaussian(torch.zeros(40, 3), torch.ones(40, 1)), np.zeros(40, int), go_on=go_on)
    assert same.rows.shape == (40, NEAREST)
    assert (same.rows != np.arange(40)[:, None]).all()
    assert (same.gaps == 0).all()


def test_a_review_can_be_stopped(clusters):
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        review(*clusters[:1], np.zeros(100, int), go_on=stop)
