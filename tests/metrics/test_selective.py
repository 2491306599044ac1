"""Selective prediction against averaging over every order of tied items."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.metrics import accuracy_at_coverage, augrc, aurc, e_aurc, r_auroc, risk_coverage

# few distinct uncertainties, so that ties are the rule
cases = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.7]), st.booleans()), min_size=1, max_size=6).map(
    lambda rows: tuple(np.array(column) for column in zip(*rows, strict=True))
)


def expected_risk(uncertainty, error):
    """The mean curve over all orders of the items that respect the uncertainty."""
    n = len(error)
    legal = [order for order in permutations(range(n)) if (np.diff(uncertainty[list(order)]) >= 0).all()]
    curves = [np.cumsum(error[list(order)]) / np.arange(1, n + 1) for order in legal]
    return np.mean(curves, axis=0)


@settings(deadline=None, max_examples=60)
@given(cases)
def test_ties_give_the_expected_risk(rows):
    uncertainty, error = rows
    curve = risk_coverage(uncertainty, error)
    np.testing.assert_allclose(curve.risk, expected_risk(uncertainty, error))
    np.testing.assert_allclose(curve.coverage, [(i + 1) / len(error) for i in range(len(error))])
    assert aurc(uncertainty, error) == pytest.approx(expected_risk(uncertainty, error).mean())


@settings(deadline=None, max_examples=60)
@given(cases)
def test_no_order_beats_the_oracle(rows):
    uncertainty, error = rows
    best = min(aurc(list(order), error) for order in permutations(range(len(error))))
    assert e_aurc(uncertainty, error) == pytest.approx(aurc(uncertainty, error) - best)
    assert e_aurc(uncertainty, error) >= -1e-12


@settings(deadline=None, max_examples=60)
@given(cases)
def test_wrong_and_answered_is_counted_pair_by_pair(rows):
    uncertainty, error = rows
    surer = uncertainty[:, None] < uncertainty  # item i is answered where item j is the threshold
    answered = surer + 0.5 * (uncertainty[:, None] == uncertainty)
    assert augrc(uncertainty, error) == pytest.approx((error[:, None] * answered).mean())


@settings(deadline=None, max_examples=60)
@given(cases)
def test_generalised_risk_is_a_matter_of_accuracy_and_r_auroc(rows):
    uncertainty, error = rows
    right = ~error
    if right.any() and error.any():
        a = right.mean()
        expected = (1 - r_auroc(uncertainty, right)) * a * (1 - a) + (1 - a) ** 2 / 2
        assert augrc(uncertainty, error) == pytest.approx(expected)


@settings(deadline=None)
@given(cases, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(rows, random):
    order = list(range(len(rows[0])))
    random.shuffle(order)
    shuffled = (rows[0][order], rows[1][order])
    assert aurc(*shuffled) == pytest.approx(aurc(*rows))
    assert accuracy_at_coverage(*shuffled, 0.4) == pytest.approx(accuracy_at_coverage(*rows, 0.4))


@settings(deadline=None)
@given(cases)
def test_at_full_coverage_uncertainty_has_no_say(rows):
    uncertainty, correct = rows
    assert accuracy_at_coverage(uncertainty, correct, 1.0) == pytest.approx(correct.mean())


def test_a_constant_uncertainty_has_the_error_rate_everywhere():
    np.testing.assert_allclose(risk_coverage([1.0] * 4, [0, 0, 0, 1]).risk, 0.25)


def test_losses_may_be_real_numbers():
    np.testing.assert_allclose(risk_coverage([1, 2], [0.5, 2.5]).risk, [0.5, 1.5])
    with pytest.raises(InputError, match="finite"):
        risk_coverage([1, 2], [0.5, np.inf])


def test_coverage_rounds_up_to_whole_items():
    uncertainty, correct = [1, 2, 3], [True, False, True]
    assert accuracy_at_coverage(uncertainty, correct, 0.01) == 1.0
    assert accuracy_at_coverage(uncertainty, correct, 0.34) == 0.5


def test_coverage_that_floating_point_cannot_multiply():
    # 0.55 * 100 is 55.000...01; the 56th item, the only wrong one, stays out
    correct = np.arange(100) != 55
    assert accuracy_at_coverage(np.arange(100), correct, 0.55) == 1.0
    assert accuracy_at_coverage(np.arange(100), correct, 0.56) < 1.0


def test_coverage_zero_is_refused():
    with pytest.raises(InputError, match="coverage"):
        accuracy_at_coverage([1, 2], [True, False], 0.0)


def test_direction():
    error, better, worse = np.array([0, 0, 1, 1]), [1, 2, 3, 4], [4, 3, 2, 1]
    assert (risk_coverage(better, error).risk <= risk_coverage(worse, error).risk).all()
    assert aurc(better, error) < aurc(worse, error)
    assert augrc(better, error) < augrc(worse, error)
    assert e_aurc(better, error) < e_aurc(worse, error)
    assert accuracy_at_coverage(better, 1 - error, 0.5) > accuracy_at_coverage(worse, 1 - error, 0.5)
