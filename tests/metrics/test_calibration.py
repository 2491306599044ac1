"""Calibration against loops over bins and scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from howsure.errors import InputError
from howsure.metrics import brier, ece, nll, reliability

# multiples of 1/20: ties and values exactly on the edges of 4, 5 and 10 bins
predicted = st.lists(st.tuples(st.integers(0, 20).map(lambda i: i / 20), st.booleans()), min_size=1, max_size=40).map(
    lambda rows: tuple(np.array(column) for column in zip(*rows, strict=True))
)


def ece_by_bins(confidence, correct, bins):
    total = 0.0
    for b in range(bins):
        inside = (confidence >= b / bins) & ((confidence < (b + 1) / bins) | (b == bins - 1))
        if inside.any():
            total += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
    return total


@settings(deadline=None)
@given(predicted, st.sampled_from([1, 4, 5, 10, 15]))
def test_equal_width_against_a_loop(rows, bins):
    assert ece(*rows, bins=bins) == pytest.approx(ece_by_bins(*rows, bins))


@settings(deadline=None)
@given(st.permutations(range(24)), st.sampled_from([1, 3, 5, 8]))
def test_equal_mass_against_a_split_when_nothing_is_tied(order, bins):
    confidence = (np.array(order) + 0.5) / 24
    correct = np.array([i % 3 == 0 for i in range(24)])
    by_confidence = np.argsort(confidence)
    groups = [by_confidence[[i for i in range(24) if i * bins // 24 == b]] for b in range(bins)]
    sizes = [len(group) for group in groups]
    assert max(sizes) - min(sizes) <= 1
    found = reliability(confidence, correct, bins=bins, binning="equal_mass")
    assert found.count.tolist() == sizes
    np.testing.assert_allclose(found.confidence, [confidence[g].mean() for g in groups])
    np.testing.assert_allclose(found.accuracy, [correct[g].mean() for g in groups])


@settings(deadline=None)
@given(predicted, st.sampled_from(["equal_width", "equal_mass"]), st.randoms(use_true_random=False))
def test_bins_hold_every_item_in_any_order(rows, binning, random):
    found = reliability(*rows, bins=5, binning=binning)
    assert found.count.sum() == len(rows[0])
    assert (found.count > 0).all()
    assert (np.diff(found.confidence) > 0).all()
    assert found.count @ found.confidence == pytest.approx(rows[0].sum())
    assert found.count @ found.accuracy == pytest.approx(rows[1].sum())
    order = list(range(len(rows[0])))
    random.shuffle(order)
    assert ece(rows[0][order], rows[1][order], bins=5, binning=binning) == pytest.approx(
        ece(*rows, bins=5, binning=binning)
    )


@settings(deadline=None)
@given(predicted)
def test_brier_and_nll_against_scikit_learn(rows):
    p, y = rows
    assert brier(p, y) == pytest.approx(brier_score_loss(y, p, pos_label=True))
    inner = np.clip(p, 0.01, 0.99)
    assert nll(inner, y) == pytest.approx(log_loss(y, inner, labels=[False, True]))


def test_confidence_one_counts():
    # 70 % unanimous and only 80 % right: with a half-open last bin these items would vanish and the error with them
    confidence = [1.0] * 70 + [0.55] * 20 + [0.5] * 10
    correct = [True] * 56 + [False] * 14 + [True] * 11 + [False] * 9 + [True] * 5 + [False] * 5
    assert ece(confidence, correct, bins=10) == pytest.approx(0.7 * 0.2)


def test_an_edge_belongs_to_the_upper_bin():
    # 0.58 * 100 is 57.99...: multiplying would put it one bin too low
    assert reliability([0.575, 0.58], [True, True], bins=100).count.tolist() == [1, 1]


def test_the_two_binnings_are_different_numbers():
    confidence, correct = [0.1, 0.2, 0.3, 0.9], [True, False, True, True]
    assert ece(confidence, correct, bins=2) == pytest.approx(0.75 * abs(2 / 3 - 0.2) + 0.25 * 0.1)
    assert ece(confidence, correct, bins=2, binning="equal_mass") == pytest.approx(0.5 * 0.35 + 0.5 * 0.4)


def test_a_constant_games_ece_but_not_brier():
    outcome = np.arange(10) < 5
    assert ece([0.5] * 10, outcome) == 0.0
    assert brier([0.5] * 10, outcome) == 0.25
    assert nll([0.5] * 10, outcome) == pytest.approx(math.log(2))


def test_certain_and_wrong_costs_infinity():
    assert nll([0.0, 0.9], [True, True]) == math.inf
    assert nll([0.0, 1.0], [False, True]) == 0.0


def test_bins_and_binning_are_checked():
    with pytest.raises(InputError, match="bins: expected at least 1"):
        ece([0.5], [True], bins=0)
    with pytest.raises(InputError, match="'equal_width' or 'equal_mass'"):
        ece([0.5], [True], binning="quantile")


def test_direction():
    outcome, better, worse = [True, True, False, False], [0.9, 0.8, 0.1, 0.2], [0.2, 0.9, 0.8, 0.1]
    assert ece(better, outcome) < ece(worse, outcome)
    assert brier(better, outcome) < brier(worse, outcome)
    assert nll(better, outcome) < nll(worse, outcome)
    gaps = [
        np.abs(r.accuracy - r.confidence).max() for r in (reliability(better, outcome), reliability(worse, outcome))
    ]
    assert gaps[0] < gaps[1]
