"""Verification against scikit-learn and against trying every threshold."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.metrics import auroc, equal_error_rate, roc_curve, tar_at_far, verification_ap

pairs = st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.2, 0.5, 1.0])), min_size=0, max_size=25).map(
    lambda rows: tuple(np.array(column) for column in zip(*rows, (True, 0.2), (False, 0.5), strict=True))
)


def rates(same, similarity):
    """FAR and TAR at every threshold, by counting."""
    thresholds = [np.inf, *np.sort(np.unique(similarity))[::-1]]
    return [(np.mean(similarity[~same] >= t), np.mean(similarity[same] >= t)) for t in thresholds]


@settings(deadline=None)
@given(pairs)
def test_roc_against_scikit_learn(rows):
    far, tar, threshold = sklearn.metrics.roc_curve(*rows, drop_intermediate=False)
    curve = roc_curve(*rows)
    np.testing.assert_allclose(curve.far, far)
    np.testing.assert_allclose(curve.tar, tar)
    np.testing.assert_allclose(curve.threshold, threshold)
    assert sklearn.metrics.auc(curve.far, curve.tar) == pytest.approx(auroc(*rows))


@settings(deadline=None)
@given(pairs, st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]))
def test_tar_tries_every_threshold(rows, far):
    assert tar_at_far(*rows, far) == pytest.approx(max(t for f, t in rates(*rows) if f <= far))


@settings(deadline=None)
@given(pairs)
def test_equal_error_rate_lies_between_the_points_around_it(rows):
    points = rates(*rows)
    found = equal_error_rate(*rows)
    below = [(f, t) for f, t in points if f <= 1 - t]
    above = [(f, t) for f, t in points if f >= 1 - t]
    (f0, t0), (f1, t1) = max(below), min(above)
    assert f0 - 1e-12 <= found <= f1 + 1e-12
    # on the segment: moving from one point to the other by the same share in both rates gives FAR = 1 - TAR
    share = 0.0 if (f0, t0) == (f1, t1) else (1 - t0 - f0) / (f1 - f0 + t1 - t0)
    assert found == pytest.approx(f0 + share * (f1 - f0))


def test_equal_error_rate_of_chance_and_of_perfection():
    assert equal_error_rate([True, False], [0.5, 0.5]) == 0.5
    assert equal_error_rate([True, True, False], [0.9, 0.8, 0.1]) == 0.0
    assert equal_error_rate([True, True, False], [0.1, 0.2, 0.9]) == 1.0


@settings(deadline=None)
@given(pairs)
def test_verification_ap_states_its_base_rate(rows):
    found = verification_ap(*rows)
    assert found.value == pytest.approx(sklearn.metrics.average_precision_score(*rows))
    assert found.base_rate == pytest.approx(rows[0].mean())


def test_far_is_kept_not_approached():
    # the third `same` pair lies below one of ten different pairs: reached at FAR 0.1, not a hair before
    same = [True] * 3 + [False] * 10
    similarity = [0.9, 0.8, 0.6, 0.7] + [0.1] * 9
    assert tar_at_far(same, similarity, 0.1) == 1.0
    assert tar_at_far(same, similarity, 0.0999) == pytest.approx(2 / 3)


def test_direction():
    same, better, worse = [True, True, False, False], [0.9, 0.8, 0.2, 0.1], [0.9, 0.2, 0.8, 0.1]
    assert verification_ap(same, better).value > verification_ap(same, worse).value
    assert tar_at_far(same, better, 0.1) > tar_at_far(same, worse, 0.1)
    assert equal_error_rate(same, better) < equal_error_rate(same, worse)
    assert (roc_curve(same, better).tar >= 0.99).sum() > (roc_curve(same, worse).tar >= 0.99).sum()
