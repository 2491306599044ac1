import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from howsure.errors import CalibrationError, InputError
from howsure.numerics.logistic import Logistic, fit_logistic


def simulated(n: int = 600, *, seed: int = 0, weights: tuple[float, ...] = (1.5, 0.7)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal([2.0, -1.0], [1.0, 3.0], (n, 2))
    return x, rng.random(n) < expit(x @ np.array(weights) - 1)


def standardised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(0)) / x.std(0)


@pytest.mark.parametrize("prior_scale", [0.3, 3.0, 10.0])
def test_where_no_sign_binds_it_is_scikit_learn(prior_scale: float) -> None:
    x, y = simulated()
    ours = fit_logistic(x, y, prior_scale=prior_scale)
    theirs = LogisticRegression(C=prior_scale**2, tol=1e-10, max_iter=10_000).fit(standardised(x), y)
    wanted = theirs.predict_proba(standardised(x))[:, 1]
    assert np.allclose(ours.probability(x), wanted, atol=1e-5)


def test_a_feature_that_points_the_other_way_is_left_out() -> None:
    x, y = simulated(weights=(1.5, -0.7))
    ours = fit_logistic(x, y)
    alone = fit_logistic(x[:, :1], y)
    assert ours.coefficients[1] == 0
    assert ours.coefficients[0] == pytest.approx(alone.coefficients[0], rel=1e-4)


def test_no_coefficient_is_negative_and_the_gradient_vanishes_at_the_optimum() -> None:
    x, y = simulated(weights=(1.5, -0.7))
    ours = fit_logistic(x, y, prior_scale=3.0)
    z, scale = standardised(x), x.std(0)
    scaled = np.array(ours.coefficients) * scale
    slope = z.T @ (ours.probability(x) - y) + scaled / 9
    assert abs(slope[0]) < 1e-3
    assert slope[1] > 0  # the bound holds it back
    assert abs((ours.probability(x) - y).sum()) < 1e-3  # the offset is free


def test_units_do_not_matter() -> None:
    x, y = simulated()
    scaled = fit_logistic(x * [1e-4, 1e5], y)
    assert np.allclose(scaled.probability(x * [1e-4, 1e5]), fit_logistic(x, y).probability(x), atol=1e-6)


def test_the_origin_does_not_matter() -> None:
    x, y = simulated()
    assert np.allclose(fit_logistic(x + 50, y).coefficients, fit_logistic(x, y).coefficients, rtol=1e-4)


def test_a_constant_feature_says_nothing() -> None:
    x, y = simulated()
    with_constant = fit_logistic(np.column_stack([x, np.full(len(x), 7.0)]), y)
    assert with_constant.coefficients[2] == 0
    assert np.allclose(with_constant.coefficients[:2], fit_logistic(x, y).coefficients, rtol=1e-4)


def test_only_constants_give_the_base_rate() -> None:
    y = np.arange(10) < 3
    assert fit_logistic(np.ones((10, 1)), y).probability(np.ones((1, 1))) == pytest.approx(0.3, abs=1e-6)


def test_a_stronger_prior_pulls_harder() -> None:
    x, y = simulated()
    strong, weak = fit_logistic(x, y, prior_scale=0.1), fit_logistic(x, y, prior_scale=10)
    assert all(a < b for a, b in zip(strong.coefficients, weak.coefficients, strict=True))


def test_log_odds_and_probability_agree() -> None:
    link = Logistic((2.0, 0.5), -1.0)
    x = np.array([[1.0, 2.0], [0.0, 0.0]])
    assert link.log_odds(x).tolist() == [2.0, -1.0]
    assert np.allclose(link.probability(x), expit([2.0, -1.0]))


@pytest.mark.parametrize("outcome", [np.zeros(5), np.ones(5), np.zeros(0)])
def test_one_outcome_only(outcome: np.ndarray) -> None:
    with pytest.raises(CalibrationError, match="both kinds"):
        fit_logistic(np.zeros((len(outcome), 1)), outcome)


@pytest.mark.parametrize(
    ("features", "outcome"),
    [
        (np.zeros(4), [0, 1, 0, 1]),
        (np.zeros((4, 1)), [0, 1]),
        (np.array([[np.nan], [1.0]]), [0, 1]),
        (np.array([[np.inf], [1.0]]), [0, 1]),
        (np.zeros((3, 1)), [0, 1, 2]),
    ],
)
def test_malformed(features: np.ndarray, outcome: list[int]) -> None:
    with pytest.raises(InputError, match="features and outcome"):
        fit_logistic(features, np.array(outcome))
