import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from howsure.errors import InputError
from howsure.numerics.typical import Typical, fit_typical

SAMPLE = np.random.default_rng(0).normal((10, -3, 0), (2, 0.5, 1), (4_000, 3))
FITTED = fit_typical(SAMPLE, [1, -1, 0], least=[0.01, 0.01, 0.01])


def test_normal_numbers_have_their_mean_and_deviation() -> None:
    np.testing.assert_allclose(FITTED.median, (10, -3, 0), atol=0.1)
    for spread in (FITTED.below, FITTED.above):
        np.testing.assert_allclose(spread, (2, 0.5, 1), rtol=0.1)


def test_deviations_by_hand() -> None:
    known = Typical((1, -1, 0), (10.0, -3.0, 0.0), (2.0, 0.5, 1.0), (4.0, 1.0, 2.0))
    values = np.array([[18.0, -4.0, -3.0], [0.0, 5.0, 3.0]])
    np.testing.assert_array_equal(known.deviations(values), [[2, 2, -3], [0, 0, 1.5]])
    np.testing.assert_allclose(known.distance(values), [17**0.5, 1.5])


def test_each_side_has_a_spread_of_its_own() -> None:
    skewed = np.random.default_rng(1).exponential(size=(20_000, 1))
    fitted = fit_typical(skewed, [0], least=[1e-6])
    tail = norm.ppf(0.95)
    assert fitted.above[0] == pytest.approx((np.log(20) - np.log(2)) / tail, rel=0.05)
    assert fitted.below[0] == pytest.approx((np.log(2) + np.log(0.95)) / tail, rel=0.05)


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=3), st.integers(0, 2), st.floats(0, 50))
def test_what_gets_worse_never_gets_nearer(values: list[float], which: int, by: float) -> None:
    before, after = np.array([values]), np.array([values])
    median, way = FITTED.median[which], FITTED.worse[which] or (1 if values[which] >= FITTED.median[which] else -1)
    after[0, which] += way * by
    assert FITTED.distance(after)[0] >= FITTED.distance(before)[0]
    assert np.isfinite(median)


def test_better_than_typical_is_no_better() -> None:
    assert FITTED.distance(np.array([[-100.0, 100.0, FITTED.median[2]]]))[0] == 0


def test_a_few_outliers_move_little() -> None:
    spoilt = SAMPLE.copy()
    spoilt[:80] = 1e6
    fitted = fit_typical(spoilt, [1, -1, 0], least=[0.01] * 3)
    np.testing.assert_allclose(fitted.above, FITTED.above, rtol=0.2)
    np.testing.assert_allclose(fitted.median, FITTED.median, atol=0.1)


def test_what_hardly_varies_has_the_least_spread() -> None:
    fitted = fit_typical(np.ones((5, 1)), [1], least=[0.25])
    assert (fitted.below, fitted.above) == ((0.25,), (0.25,))


def test_json_keeps_every_digit() -> None:
    assert Typical.from_json(json.loads(json.dumps(asdict(FITTED)))) == FITTED


@pytest.mark.parametrize("values", [np.ones(3), np.empty((0, 3)), np.array([[np.nan]])])
def test_what_is_no_sample_is_refused(values: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"\(n, M\), finite"):
        fit_typical(values, [1], least=[0.1])
