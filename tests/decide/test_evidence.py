from typing import Any

import numpy as np
import pytest

from howsure.decide.evidence import FEATURES, Evidence, Own, weigh
from howsure.errors import InputError


def weighed(distances: np.ndarray, identities: np.ndarray, *own: Any) -> Evidence:
    return weigh(distances, identities, Own(*(own or (np.zeros(len(distances)),))), unit=0.25)


def test_by_hand() -> None:
    distances = np.array(
        [
            [0.1, 0.2, 0.3, 0.4, 0.5, 0.9],  # the best other identity comes third
            [0.5, 0.6, 0.7, 0.8, 0.9, 1.0],  # one identity only: the last bounds the margin
        ]
    )
    identities = np.array([[7, 7, 3, 7, 3, 1], [5, 5, 5, 5, 5, 5]])
    evidence = weighed(distances, identities, np.array([0.01, 0.02]))
    assert evidence.distance.tolist() == [0.1, 0.5]
    assert np.allclose(evidence.margin, [0.2, 0.5])
    assert np.allclose(evidence.ratio, np.log([0.3 / 0.1, 1.0 / 0.5]))
    assert np.allclose(evidence.lift, [0.3 / np.std(distances[0]), 0.25 / np.std(distances[1])])
    assert evidence.agreement.tolist() == evidence.neighbour_agreement.tolist() == [3, 6]
    assert evidence.member_agreement.tolist() == [0, 0]
    assert np.allclose(evidence.remoteness, np.prod(distances[:, :5], 1) ** 0.2)
    mine, theirs = np.exp([-0.4, -0.8, -1.6]).sum(), np.exp([-1.2, -2.0, -3.6]).sum()
    alone = np.exp(-4 * distances[1]).sum()
    assert np.allclose(evidence.support, [np.log(mine / theirs), np.log(alone / np.exp(-4.0))])
    assert np.allclose(evidence.neighbour_distance, [0.3, 0.7])  # of the nearest five
    assert evidence.uncertainty.tolist() == [0.01, 0.02]
    assert evidence.novelty.tolist() == [0, 0]


def test_the_spread_is_in_the_distances_or_is_added() -> None:
    distances, identities, spread = np.full((1, 6), 3.0), np.arange(6)[None], np.array([7.0])
    expected, means = (
        weigh(distances, identities, Own(spread, spread=spread, between_means=mean), unit=1.0) for mean in (False, True)
    )
    assert (expected.gap, expected.remoteness) == (pytest.approx(2**0.5), pytest.approx(3.0))
    assert (means.gap, means.remoteness) == (pytest.approx(3.0), pytest.approx(4.0))


def test_features_grow_with_the_chance_to_be_right() -> None:
    """Query 1 is better than query 0 in every respect."""
    distances, identities = (
        np.array([[0.6, 0.65, 0.7, 0.75], [0.1, 0.7, 0.8, 0.8]]),
        np.array([[0, 1, 1, 1], [0, 0, 1, 1]]),
    )
    members = np.array([[[0, 1], [1, 1]], [[0, 0], [0, 1]]])  # two of each
    own = np.array([0.9, 0.1]), np.array([1.0, 0.2]), 0.0, members
    evidence = weighed(distances, identities, *own)
    assert evidence.member_agreement.tolist() == [0.5, 1.5]
    assert np.isfinite(evidence.features()).all()
    assert (np.diff(evidence.features(), axis=0) > 0).all()
    assert evidence.features().shape == (2, len(FEATURES))


def test_the_gap_is_between_means() -> None:
    """3-4-5: the square of the distance holds that of the gap and both variances."""
    found, own = (np.array([[5.0]]), np.array([[0]])), np.array([9.0])
    assert weighed(*found, own).gap == [5.0]  # distances between means
    for spread, gap in ((9.0, 4.0), (16.0, 3.0), (30.0, 0.0)):
        assert weighed(*found, own, None, np.array([spread])).gap == pytest.approx([gap])


def test_many_references_support_more_than_one() -> None:
    """The best match and the best other are as far in both; only the rest of the gallery differs."""
    distances = np.array([[0.1, 0.2, 0.3, 0.3], [0.1, 0.2, 0.3, 0.3]])
    evidence = weighed(distances, np.array([[0, 1, 0, 0], [0, 1, 1, 1]]))
    assert evidence.margin[0] == evidence.margin[1]
    assert evidence.support[0] > 0 > evidence.support[1]


def test_equal_distances_and_none_at_all_stay_finite() -> None:
    evidence = weighed(np.zeros((1, 3)), np.array([[0, 1, 1]]))
    assert (evidence.ratio, evidence.lift, evidence.agreement) == (0, 0, 1)
    assert np.isfinite(weighed(np.array([[0.0, 0.5]]), np.array([[0, 1]])).features()).all()


def test_rows() -> None:
    evidence = weighed(np.array([[0.5, 0.6], [0.1, 0.9]]), np.array([[0, 1], [0, 1]]), np.array([0.9, 0.1]))
    assert np.array_equal(evidence[np.array([1])].features(), evidence.features()[[1]])
    assert np.array_equal(evidence[np.array([True, False])].features(), evidence.features()[[0]])


def test_names_are_identities_too() -> None:
    named = weighed(np.array([[0.1, 0.4]]), np.array([["ann", "bob"]], dtype=object))
    assert named.margin.tolist() == pytest.approx([0.3])


@pytest.mark.parametrize(
    ("distances", "identities"), [((2, 3), (2, 2)), ((2, 0), (2, 0)), ((3,), (3,))], ids=["unequal", "none", "flat"]
)
def test_malformed_matches(distances: tuple[int, ...], identities: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="matches"):
        weighed(np.zeros(distances), np.zeros(identities))
