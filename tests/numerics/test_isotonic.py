import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from howsure.errors import InputError
from howsure.numerics.isotonic import Isotonic, fit_isotonic


def by_windows(scores: np.ndarray, outcome: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The textbook formula: the largest mean to the left of the smallest means to the right."""
    levels_at = np.unique(scores)
    level = []
    for position in levels_at:
        starts, ends = levels_at[levels_at <= position], levels_at[levels_at >= position]
        means = [[outcome[(scores >= a) & (scores <= b)].mean() for b in ends] for a in starts]
        level.append(np.min(means, axis=1).max())
    least = 1 / (len(scores) + 2)
    return levels_at, np.clip(level, least, 1 - least)


@given(st.lists(st.tuples(st.integers(-3, 6), st.booleans()), min_size=1, max_size=25))
def test_against_the_formula(items: list[tuple[int, bool]]) -> None:
    scores, outcome = np.array([s for s, _ in items], float), np.array([y for _, y in items])
    levels_at, level = by_windows(scores, outcome)
    fitted = fit_isotonic(scores, outcome)
    assert np.allclose(fitted.log_odds(levels_at), logit(level), atol=1e-9)


def test_it_never_falls_and_is_flat_beyond() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=500)
    fitted = fit_isotonic(scores, rng.random(500) < expit(3 * scores))
    curve = fitted.log_odds(np.linspace(-9, 9, 300))
    assert (np.diff(curve) >= 0).all()
    assert curve[0] == fitted.values[0] < 0 < fitted.values[-1] == curve[-1]


def test_few_examples_never_make_certain() -> None:
    fitted = fit_isotonic(np.array([0.0, 1.0]), np.array([False, True]))
    assert np.allclose(expit(fitted.log_odds(np.array([0.0, 0.5, 1.0]))), [0.25, 0.5, 0.75])


def test_prior_odds_move_all_of_it() -> None:
    fitted = Isotonic((0.0, 1.0, 3.0), (-1.0, 0.0, 2.0))
    scores = np.linspace(-1, 4, 11)
    assert np.allclose(fitted.shifted(0.7).log_odds(scores), fitted.log_odds(scores) + 0.7)


@pytest.mark.parametrize("steps", [((1.0, 0.0), (0.0, 1.0)), ((0.0, 1.0), (1.0, 0.0)), ((0.0,), ()), ((), ())], ids=str)
def test_what_is_no_rising_curve(steps: tuple[tuple[float, ...], tuple[float, ...]]) -> None:
    with pytest.raises(InputError, match="steps"):
        Isotonic(*steps)


@pytest.mark.parametrize(
    ("score", "outcome"), [([], []), ([0.0], [0.5]), ([np.nan], [1]), ([0.0, 1.0], [1]), ([[0.0]], [[1]])], ids=str
)
def test_bad_input(score: list[float], outcome: list[float]) -> None:
    with pytest.raises(InputError, match="score and outcome"):
        fit_isotonic(np.array(score), np.array(outcome))
