"""The exact test behind the guarantee: against a plain walk, and by simulation of worlds with known risk."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

import references
from howsure.decide import certify, least_count
from howsure.decide.certify import expected_share, widest_threshold

GRID = np.arange(1, 51) / 50


@given(st.integers(0, 2**32), st.integers(0, 400), st.floats(0, 0.3), st.integers(0, 49), st.sampled_from([0.05, 0.2]))
def test_against_a_plain_walk(seed: int, n: int, risk: float, start: int, max_error: float) -> None:
    rng = np.random.default_rng(seed)
    uncertainty, error = rng.random(n).round(2), rng.random(n) < risk
    ours = certify(uncertainty, error, GRID, max_error=max_error, confidence=0.9, starts=[start])
    wanted = references.widest_threshold(uncertainty, error, GRID, max_error=max_error, confidence=0.9, start=start)
    assert (None if ours is None else (ours.threshold, ours.accepted, ours.errors)) == wanted
    if ours is not None:
        assert ours.errors / ours.accepted <= ours.error_bound <= max_error + 1e-9


def test_bound_is_clopper_pearson() -> None:
    found = certify(np.zeros(200), np.arange(200) < 3, np.array([1.0]), max_error=0.05, confidence=0.95)
    assert found is not None
    assert (found.accepted, found.errors) == (200, 3)
    assert found.error_bound == pytest.approx(beta.ppf(0.95, 4, 197))


def test_the_walk_ends_at_the_first_failure() -> None:
    """Bad between .3 and .5, perfect beyond: the good end must not be reached over the bad middle."""
    uncertainty = np.linspace(0, 1, 2_000)
    error = (uncertainty > 0.3) & (uncertainty < 0.5) & (np.arange(2_000) % 2 == 0)
    found = certify(uncertainty, error, GRID, max_error=0.05, confidence=0.95, starts=[5])
    assert found is not None
    assert 0.3 <= found.threshold < 0.4
    assert certify(uncertainty, error, GRID, max_error=0.05, confidence=0.95, starts=[24]) is None


def test_walks_share_the_risk_and_the_widest_wins() -> None:
    """Two walks are two walks at half the risk each; the bad middle stops the first, the second starts beyond it."""
    uncertainty = np.linspace(0, 1, 20_000)
    error = (uncertainty > 0.3) & (uncertainty < 0.35) & (np.arange(20_000) % 2 == 0)
    options = {"max_error": 0.05, "confidence": 0.95}
    low, high = (certify(uncertainty, error, GRID, **options, starts=[start]) for start in (5, 40))
    both = certify(uncertainty, error, GRID, **options, starts=[5, 40])
    alone = certify(uncertainty, error, GRID, max_error=0.05, confidence=0.975, starts=[40])
    assert low is not None
    assert high is not None
    assert low.threshold < 0.35 < high.threshold
    assert both == alone
    assert both == certify(uncertainty, error, GRID, **options, starts=[5, 40, 40])


def test_a_walk_takes_the_share_of_the_starts_it_meets() -> None:
    """Two starts side by side carry together what one would alone; a walk that failed before the second does not."""
    uncertainty, options = np.linspace(0, 1, 400), {"max_error": 0.05, "confidence": 0.95}
    error = np.isin(np.arange(400), [250, 280, 300, 310, 320, 330, 340, 350, 355, 360])
    alone = certify(uncertainty, error, GRID, **options, starts=[20])
    assert certify(uncertainty, error, GRID, **options, starts=[10, 20]) == alone
    assert certify(uncertainty, error, GRID, max_error=0.05, confidence=0.975, starts=[20]) != alone
    error[:20] = True
    late = certify(uncertainty, error, GRID, **options, starts=[0, 20])
    assert late == certify(uncertainty, error, GRID, max_error=0.05, confidence=0.975, starts=[20])


def test_nothing_accepted_proves_nothing() -> None:
    assert certify(np.full(100, 2.0), np.zeros(100), GRID, max_error=0.05, confidence=0.95) is None
    assert certify(np.zeros(0), np.zeros(0), GRID, max_error=0.05, confidence=0.95) is None


@pytest.mark.parametrize(
    ("max_error", "confidence", "count"),
    [(0.05, 0.95, 59), (0.05, 0.9, 45), (0.02, 0.9, 114), (0.01, 0.95, 299), (0.01, 0.9, 230), (0.001, 0.95, 2995)],
)
def test_least_count_is_the_least(max_error: float, confidence: float, count: int) -> None:
    assert least_count(max_error, confidence) == count
    for n, passes in ((count, True), (count - 1, False)):
        found = certify(np.zeros(n), np.zeros(n), np.zeros(1), max_error=max_error, confidence=confidence)
        assert (found is not None) == passes


def stepped(*pieces: tuple[float, float]) -> Callable[[np.ndarray], np.ndarray]:
    """Risk by uncertainty, from (up to, risk) pieces."""
    ends, risks = (np.array(side) for side in zip(*pieces, strict=True))
    return lambda u: risks[np.searchsorted(ends, u, side="right").clip(max=len(risks) - 1)]


WORLDS = {
    "smooth": lambda u: 0.2967 * u**2,
    "step": stepped((0.5, 0.02), (1.0, 0.6)),
    "sure and wrong": stepped((0.05, 0.2), (0.7, 0.02), (1.0, 0.12)),
    "just too much everywhere": stepped((1.0, 0.0501)),
}
EPSILON, DELTA, REPEATS = 0.05, 0.1, 600


def true_error(risk: Callable[[np.ndarray], np.ndarray], threshold: float) -> float:
    """Error rate among items below the threshold, uncertainty being uniform on [0, 1]."""
    middles = (np.arange(20_000) + 0.5) / 20_000 * min(threshold, 1.0)
    return float(risk(middles).mean())


@pytest.mark.parametrize("world", WORLDS)
def test_the_guarantee_holds_where_the_naive_threshold_breaks(world: str) -> None:
    risk, rng = WORLDS[world], np.random.default_rng(0)
    broken = naive_broken = found = 0
    for _ in range(REPEATS):
        uncertainty = rng.random(1_000)
        error = rng.random(1_000) < risk(uncertainty)
        naive = references.empirical_threshold(uncertainty, error, max_error=EPSILON)
        naive_broken += naive > 0 and true_error(risk, naive) > EPSILON
        rule = certify(uncertainty, error, GRID, max_error=EPSILON, confidence=1 - DELTA, starts=[12, 24, 36])
        found += rule is not None
        broken += rule is not None and true_error(risk, rule.threshold) > EPSILON
    allowed = DELTA + 3 * (DELTA * (1 - DELTA) / REPEATS) ** 0.5
    assert broken / REPEATS <= allowed
    assert naive_broken / REPEATS > 0.3  # what the exact test buys
    if world != "just too much everywhere":
        assert found / REPEATS > 0.3  # it does not keep its word by keeping silent


def test_what_is_foreseen_depends_on_the_fitting_items_alone() -> None:
    rng = np.random.default_rng(0)
    uncertainty, fit, test = rng.random(900), np.arange(300), np.arange(300, 900)
    good, bad = rng.random(900) < 0.1 * uncertainty, rng.random(900) < 0.3
    options = {"fit": fit, "test": test, "max_error": 0.1, "confidence": 0.95}
    share, proved = expected_share(uncertainty, good, **options), widest_threshold(uncertainty, good, **options)
    assert proved is not None
    assert share == pytest.approx(proved.accepted / 600, abs=0.1)
    assert expected_share(uncertainty, bad, **options) == 0
    spoiled = np.where(np.arange(900) < 300, good, True)
    assert expected_share(uncertainty, spoiled, **options) == share
