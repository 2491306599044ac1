import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from cases import draws_of_gaussians
from howsure.compare import rms_distance
from howsure.errors import CalibrationError, InputError
from howsure.match import Matcher, match_probability


def simulated(n: int, *, scale: float, offset: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    distance = rng.gamma(4.0, 0.25, n)
    return distance, rng.random(n) < expit(offset - scale * distance)


@pytest.mark.parametrize(("scale", "offset"), [(4.0, 3.0), (0.5, 0.0), (20.0, 12.0)])
def test_recovers_the_truth(scale: float, offset: float) -> None:
    fitted = Matcher.fit(*simulated(40_000, scale=scale, offset=offset))
    assert fitted.scale == pytest.approx(scale, rel=0.1)
    assert fitted.offset == pytest.approx(offset, rel=0.1, abs=0.1)


def test_agrees_with_scikit_learn() -> None:
    distance, same = simulated(2_000, scale=4.0, offset=3.0)
    ours = Matcher.fit(distance, same)
    theirs = LogisticRegression(C=1e6, tol=1e-10, max_iter=10_000).fit(distance[:, None], same)
    assert ours.scale == pytest.approx(-theirs.coef_[0, 0], rel=2e-3)
    assert ours.offset == pytest.approx(theirs.intercept_[0], rel=2e-3)
    assert ours.base_rate == same.mean()


def test_tensors_and_arrays_of_any_shape() -> None:
    distance, same = simulated(600, scale=4.0, offset=3.0)
    tables = torch.from_numpy(distance).view(20, 30), torch.from_numpy(same).view(20, 30)
    assert Matcher.fit(*tables) == Matcher.fit(distance, same)


def test_separable_pairs_stay_finite() -> None:
    distance = np.concatenate([np.linspace(0, 1, 50), np.linspace(2, 3, 50)])
    fitted = Matcher.fit(distance, np.arange(100) < 50)
    p = fitted.probability(torch.tensor([0.5, 2.5]))
    assert 0 < fitted.scale < 1e3
    assert p[0] > 0.99
    assert p[1] < 0.01


@pytest.mark.parametrize(
    ("same", "said"), [([True] * 3, "all matching"), ([False] * 3, "all different"), ([], "no pairs")]
)
def test_one_kind_of_pair(same: list[bool], said: str) -> None:
    with pytest.raises(CalibrationError, match=said) as caught:
        Matcher.fit(np.linspace(0, 1, len(same)), np.array(same))
    assert "two classes" in caught.value.fix


def test_matching_pairs_farther_than_others() -> None:
    with pytest.raises(CalibrationError, match="nearer"):
        Matcher.fit(np.array([0.1, 0.2, 0.9, 1.0]), np.array([False, False, True, True]))


def test_distances_that_are_all_the_same() -> None:
    with pytest.raises(CalibrationError, match="nearer"):
        Matcher.fit(np.ones(4), np.array([False, False, True, True]))


def test_distances_that_are_not_finite() -> None:
    with pytest.raises(InputError, match="finite"):
        Matcher.fit(np.array([0.1, np.nan]), np.array([True, False]))


@given(st.floats(0.01, 100), st.floats(-50, 50), st.lists(st.floats(0, 1e6), min_size=2, max_size=20))
def test_probability_falls_with_distance(scale: float, offset: float, distances: list[float]) -> None:
    p = Matcher(scale, offset, 0.5).probability(torch.tensor(sorted(distances), dtype=torch.float64))
    assert ((p >= 0) & (p <= 1)).all()
    assert (p.diff() <= 0).all()


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_another_base_rate_shifts_the_log_odds(before: float, after: float) -> None:
    matcher = Matcher(scale=3.0, offset=1.0, base_rate=before)
    moved = matcher.at(after)
    shift = moved.log_odds(torch.tensor(0.4)) - matcher.log_odds(torch.tensor(0.4))
    assert shift.item() == pytest.approx(logit(after) - logit(before), abs=1e-5)
    assert moved.base_rate == after
    assert moved.at(before).offset == pytest.approx(matcher.offset)


def test_base_rate_shift_is_right_where_matches_are_rare() -> None:
    """Fit on balanced pairs, move to a rate of 2 %: the mean probability there is the share of matches."""
    rng = np.random.default_rng(0)
    same = rng.random(200_000) < 0.02
    distance = rng.normal(np.where(same, 0.5, 1.5), 0.5)
    rows = np.concatenate([np.flatnonzero(same), np.flatnonzero(~same)[: same.sum()]])
    balanced = Matcher.fit(distance[rows], same[rows])
    assert balanced.base_rate == 0.5
    moved = balanced.at(same.mean()).probability(torch.from_numpy(distance))
    assert moved.mean().item() == pytest.approx(same.mean(), rel=0.05)
    assert balanced.probability(torch.from_numpy(distance)).mean() > 5 * same.mean()


@pytest.mark.parametrize("keys", [(0.0, 0.0, 0.5), (-1.0, 0.0, 0.5), (1.0, np.nan, 0.5), (np.inf, 0.0, 0.5)])
def test_impossible_parameters(keys: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match="positive scale"):
        Matcher(*keys)


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0, np.nan])
def test_impossible_base_rates(rate: float) -> None:
    with pytest.raises(InputError, match="base rate"):
        Matcher(1.0, 0.0, rate)
    with pytest.raises(InputError, match="base rate"):
        Matcher(1.0, 0.0, 0.5).at(rate)


def test_json_round_trip() -> None:
    matcher = Matcher(scale=0.1 + 0.2, offset=-1 / 3, base_rate=0.3)
    assert Matcher(**json.loads(json.dumps(matcher.to_json()))) == matcher


def test_match_probability_is_the_link_on_the_distance() -> None:
    matcher, e = Matcher(2.0, 1.0, 0.5), draws_of_gaussians()
    assert torch.equal(match_probability(matcher, e, e[:2]), matcher.probability(rms_distance(e, e[:2])))
    paired = match_probability(matcher, e, e[::-1], paired=True)
    assert torch.equal(paired, matcher.probability(rms_distance(e, e[::-1], paired=True)))
