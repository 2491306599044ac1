"""Neighbours against brute force, and what they say where the answer is known."""

import numpy as np
import pytest
import torch

from decide.policies import policy
from howsure import Gaussian
from howsure.compare import rms_distance
from howsure.decide.evidence import FEATURES
from howsure.match import Matcher
from howsure.numerics.link import Link
from howsure.numerics.logistic import Logistic
from howsure.web.gallery_review import NEAREST, codes_of, look_around
from howsure.web.unknown_roc import unknown_roc

MATCHER = Matcher(scale=4.0, offset=4.0, base_rate=0.1)


def go_on() -> None:
    return None


@pytest.fixture(scope="module")
def clusters():
    """Ten items in each of ten places; the label of item 7 is that of the next place, item 21 is item 20 again."""
    generator = torch.Generator().manual_seed(0)
    centres = 10 * torch.eye(10).repeat_interleave(10, 0)
    location = centres + 0.1 * torch.randn(100, 10, generator=generator)
    location[21] = location[20]
    labels = [str(place // 10) for place in range(100)]
    labels[7] = "1"
    return Gaussian(location, torch.full((100, 1), 0.05)), labels


def test_neighbours_are_those_of_a_full_comparison(clusters):
    belief, labels = clusters
    around = look_around(belief, codes_of(labels)[0], go_on=go_on)
    distance = rms_distance(belief.to(dtype=torch.float64), belief.to(dtype=torch.float64)).numpy()
    np.fill_diagonal(distance, np.inf)
    np.testing.assert_allclose(around.distances, np.sort(distance, 1)[:, :NEAREST], rtol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(distance, around.rows, 1), around.distances, rtol=1e-6)
    mean = belief.mean.double().numpy()
    np.testing.assert_allclose(around.gaps[:, 0], np.linalg.norm(mean - mean[around.rows[:, 0]], axis=1))


def test_a_wrong_label_and_a_copy_are_found_and_nothing_else(clusters):
    belief, labels = clusters
    codes, names = codes_of(labels)
    around = look_around(belief, codes, go_on=go_on)
    ((row, suggested, probability),) = around.label_errors(MATCHER)
    assert (row, names[suggested]) == (7, "0")
    assert 0.5 < probability <= 1
    assert around.errors()[7]
    assert [pair[:2] for pair in around.twins()] == [(20, 21)]
    confirmed = around.label_probability(MATCHER)
    assert confirmed.argmin() == 7
    assert confirmed[20] == pytest.approx(float(MATCHER.probability(torch.tensor(around.distances[20, 0]))))


def test_without_labels_nothing_is_said_about_them(clusters):
    belief, _ = clusters
    around = look_around(belief[:30], codes_of([None] * 30)[0], go_on=go_on)
    assert around.errors() is None
    assert around.label_errors(MATCHER) == []
    assert np.isnan(around.label_probability(MATCHER)).all()
    assert len(around.twins()) == 1


def test_two_items_and_many_of_one_place():
    pair = look_around(Gaussian(torch.eye(2), torch.ones(2, 1)), np.array([0, 0]), go_on=go_on)
    assert pair.rows.tolist() == [[1], [0]]
    same = look_around(Gaussian(torch.zeros(40, 3), torch.ones(40, 1)), np.zeros(40, int), go_on=go_on)
    assert same.rows.shape == (40, NEAREST)
    assert (same.rows != np.arange(40)[:, None]).all()
    assert (same.gaps == 0).all()


def test_a_look_can_be_ended(clusters):
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        look_around(*clusters[:1], np.zeros(100, int), go_on=stop)


def test_strangers_far_from_everybody_are_all_noticed(clusters):
    belief, labels = clusters
    labels = [str(place // 10) for place in range(100)]
    made = policy()
    assert made.chances.right == Link(Logistic((1.0, *[0.0] * (FEATURES - 1)), 0.0))  # the distance alone decides
    roc = unknown_roc(belief, codes_of(labels)[0], made, go_on=go_on)
    assert roc.auroc == 1
    assert (roc.false_positive[0], roc.true_positive[0]) == (0, 0)
    assert (roc.false_positive[-1], roc.true_positive[-1]) == (1, 1)


@pytest.mark.parametrize("labels", [[None] * 100, ["one"] * 100, [str(place) for place in range(100)]])
def test_where_there_is_nobody_to_hide_it_says_so(clusters, labels):
    told = unknown_roc(clusters[0], codes_of(labels)[0], policy(), go_on=go_on)
    assert "two labels" in told
