import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from cases import CASES, diagonal, draws_of_gaussians, draws_of_mixtures, isotropic, mixture, point
from howsure.compare import rms_distance
from howsure.embeddings import Draws, Embedding, Gaussian, GaussianMixture, Point
from howsure.errors import CalibrationError, InputError
from howsure.match import Matcher, expected_match_probability, match_probability, self_mismatch


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
    ("same", "message"), [([True] * 3, "all matching"), ([False] * 3, "all different"), ([], "no pairs")]
)
def test_pairs_of_one_class(same: list[bool], message: str) -> None:
    with pytest.raises(CalibrationError, match=message) as caught:
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


# Expected match probability

LINK = Matcher(scale=3.0, offset=4.0, base_rate=0.5)
FAMILIES = pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())


def sampled_match(matcher: Matcher, query: Embedding, gallery: Embedding, *, seed: int = 0) -> torch.Tensor:
    """The mean link over pairs of samples, draw by draw."""
    generator = torch.Generator().manual_seed(seed)
    pairs = zip(query.by_draw(), gallery.by_draw(), strict=True)
    drawn = [(a.sample(20_000, generator), b.sample(20_000, generator)) for a, b in pairs]
    return torch.stack([matcher.probability((a - b).norm(dim=-1)).mean(0) for a, b in drawn]).mean(0)


@FAMILIES
def test_expected_match_against_samples(make) -> None:
    e, other = make(), make()[::-1]
    got = expected_match_probability(LINK, e, other, paired=True)
    assert torch.allclose(got, sampled_match(LINK, e, other), atol=0.04)  # the worst of the isotropic stand-in


@pytest.mark.parametrize("scale", [1.0, 5.0, 20.0])
def test_expected_match_against_plain_integration(scale: float) -> None:
    """One scale in two dimensions: a fine grid over the difference of the two points."""
    a = Gaussian(torch.tensor([[0.2, 0.1]]).double(), torch.tensor([[0.5]]).double())
    b = Gaussian(torch.tensor([[1.0, -0.4]]).double(), torch.tensor([[0.3]]).double())
    axis = torch.linspace(-6, 6, 2401, dtype=torch.float64)
    x, y = torch.meshgrid(axis, axis, indexing="ij")
    matcher = Matcher(scale, 0.8 * scale, 0.5)
    density = torch.exp(-((x + 0.8) ** 2 + (y - 0.5) ** 2) / (2 * 0.34)) / (2 * np.pi * 0.34)
    wanted = (density * matcher.probability((x**2 + y**2).sqrt())).sum() * 0.005**2
    assert expected_match_probability(matcher, a, b).item() == pytest.approx(wanted.item(), abs=2e-5)


def test_expected_match_of_mixtures_is_the_sum_over_pairs_of_components() -> None:
    e, other = mixture(), mixture()[::-1]
    wanted = torch.zeros(len(e), dtype=torch.float64)
    for c in range(2):
        for d in range(2):
            weight = e.weights[:, c] * other.weights[:, d]
            a, b = (Gaussian(m.location[:, k], m.scale[:, k]) for m, k in ((e, c), (other, d)))
            wanted += weight * expected_match_probability(LINK, a, b, paired=True)
    assert torch.allclose(expected_match_probability(LINK, e, other, paired=True), wanted, atol=1e-3)


def test_expected_match_of_points_is_the_plain_link() -> None:
    assert torch.allclose(expected_match_probability(LINK, point(), point()), match_probability(LINK, point(), point()))


def test_expected_match_is_averaged_over_draws() -> None:
    e = draws_of_mixtures()
    one_by_one = [expected_match_probability(LINK, draw, draw) for draw in e.by_draw()]
    assert torch.allclose(expected_match_probability(LINK, e, e), torch.stack(one_by_one).mean(0), atol=1e-3)


@FAMILIES
def test_blocks_and_rows_change_nothing(make, monkeypatch: pytest.MonkeyPatch) -> None:
    e, few = make(), make()[:3]
    table = expected_match_probability(LINK, few, e)
    assert table.shape == (3, len(e))
    assert ((table >= 0) & (table <= 1)).all()
    assert torch.allclose(expected_match_probability(LINK, few, e[:3], paired=True), table.diagonal(), atol=1e-4)
    monkeypatch.setattr("howsure.match.BLOCK", 300)
    assert torch.allclose(expected_match_probability(LINK, few, e), table, atol=1e-12)
    assert expected_match_probability(LINK, few[:0], e).shape == (0, len(e))
    assert expected_match_probability(LINK, few, e[:0]).shape == (3, 0)


def test_thousands_of_queries_fit() -> None:
    many = Gaussian(torch.randn(1_000, 2), torch.full((1_000, 1), 0.1))
    assert expected_match_probability(LINK, many, many[:300]).shape == (1_000, 300)


def test_expected_match_falls_with_distance() -> None:
    """Exact quadrature and stand-in alike; two points beside an embedding are no trap for the stand-in."""
    start = Gaussian(torch.zeros(1, 2), torch.zeros(1, 2))
    location = torch.stack([torch.linspace(0, 3, 20), torch.zeros(20)], 1)
    for scale in ([0.3, 0.3], [0.3, 0.8], [0.0, 0.0], [0.0, 0.4]):
        p = expected_match_probability(LINK, start, Gaussian(location, torch.tensor(scale).expand(20, 2)))
        assert torch.isfinite(p).all()
        assert (p.diff() < 0).all()
    mixed = Gaussian(torch.zeros(2, 2), torch.tensor([[0.0, 0.0], [0.1, 0.5]]))
    assert expected_match_probability(LINK, start, mixed)[0, 0].item() == pytest.approx(expit(4.0), abs=1e-6)


def test_embeddings_of_different_families_meet() -> None:
    p = expected_match_probability(LINK, draws_of_gaussians(), mixture())
    assert p.shape == (5, 5)
    with pytest.raises(InputError, match="dimension"):
        expected_match_probability(LINK, point(), Point(torch.zeros(1, 7).double()))
    with pytest.raises(InputError, match="as many"):
        expected_match_probability(LINK, point(), point()[:2], paired=True)


# Self-mismatch


@pytest.mark.parametrize("make", [isotropic, diagonal, mixture], ids=["one scale", "per dimension", "mixture"])
def test_self_mismatch_is_that_of_two_independent_copies(make) -> None:
    assert torch.allclose(self_mismatch(LINK, make()), 1 - sampled_match(LINK, make(), make()), atol=0.04)
    twice = expected_match_probability(LINK, make(), make(), paired=True)
    assert torch.allclose(self_mismatch(LINK, make()), 1 - twice, atol=1e-12)


def test_self_mismatch_rises_with_uncertainty() -> None:
    scale = torch.linspace(0, 2, 30)[:, None]
    eta = self_mismatch(LINK, Gaussian(torch.zeros(30, 3), scale))
    assert (eta.diff() > 0).all()
    assert eta[0].item() == pytest.approx(expit(-4.0))
    apart = GaussianMixture(torch.zeros(30, 2), scale[:, None] * torch.eye(2), torch.full((30, 2, 1), 0.2))
    assert (self_mismatch(LINK, apart).diff() > 0).all()


def test_small_self_mismatch_keeps_its_digits() -> None:
    """In single precision 1 - p would be 0."""
    sure = Matcher(scale=3.0, offset=30.0, base_rate=0.5)
    eta = self_mismatch(sure, Gaussian(torch.zeros(2, 2), torch.tensor([[0.1], [0.2]])))
    assert 0 < eta[0] < eta[1] < 1e-10


def test_self_mismatch_of_draws_sets_each_against_the_next() -> None:
    locations = torch.tensor([[[0.0], [1.0], [3.0]]])
    wanted = np.mean([1 - expit(4 - 3 * gap) for gap in (1, 2, 3)])
    assert self_mismatch(LINK, Draws(Point(locations))).item() == pytest.approx(wanted, rel=1e-5)
