"""A policy made among few identities and used among many: what the correction mends, and what it does not promise."""

import numpy as np
import pytest
import torch

from howsure.decide import Policy, calibrate, decide
from howsure.decide.searched import searched
from howsure.embeddings import Gaussian
from howsure.neighbours import neighbours

DIM, NOISE, FEW, MANY = 4, 0.3, 25, 400
CENTRES = np.random.default_rng(0).normal(size=(2 * MANY, DIM))


def pictures(who: np.ndarray, rng: np.random.Generator) -> Gaussian:
    location = CENTRES[who] + NOISE * rng.normal(size=(len(who), DIM))
    return Gaussian(torch.from_numpy(location), torch.full((len(who), 1), NOISE).double())


def asked(count: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Four fifths are of the first `count` identities, which have two pictures in the gallery; the others are not."""
    return np.where(rng.random(n) < 0.8, rng.integers(0, count, n), rng.integers(MANY, 2 * MANY, n))


def gallery(count: int, rng: np.random.Generator) -> tuple[Gaussian, np.ndarray]:
    who = np.repeat(np.arange(count), 2)
    return pictures(who, rng), who


@pytest.fixture(scope="module")
def policy() -> Policy:
    rng = np.random.default_rng(1)
    items, names = gallery(FEW, rng)
    who = asked(FEW, 1_500, rng)
    return calibrate(pictures(who, rng), [*map(str, who)], items, [*map(str, names)], max_error=0.2)


def answered(policy: Policy, count: int, identities: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P(right), which are right, and which are answered as a match, in a gallery of so many."""
    rng = np.random.default_rng(2)
    items, names = gallery(count, rng)
    who = asked(count, 3_000, rng)
    query = pictures(who, rng)
    by, unit = policy.choice.by, policy.choice.unit
    seen = searched(query, items, names, neighbours(policy.ranked(query), policy.ranked(items)), by=by, unit=unit)
    answers = decide(policy, seen.evidence, identities=identities)
    match = np.array([answer.kind == "match" for answer in answers])
    return np.array([answer.probability for answer in answers]), seen.best == who, match


def test_probabilities_mean_what_they_say_in_a_larger_gallery(policy: Policy) -> None:
    off = {}
    for identities in (None, MANY):
        probability, right, _ = answered(policy, MANY, identities)
        off[identities] = abs(probability.mean() - right.mean())
    assert off[None] > 0.1
    assert off[MANY] < off[None] / 2


def test_fewer_wrong_answers_in_a_larger_gallery(policy: Policy) -> None:
    _, right, plain = answered(policy, 2 * FEW, None)
    _, _, corrected = answered(policy, 2 * FEW, 2 * FEW)
    assert (corrected <= plain).all()
    assert corrected.any()
    assert (corrected & ~right).sum() < 0.85 * (plain & ~right).sum()


def test_no_match_where_the_correction_was_not_seen_to_hold(policy: Policy) -> None:
    assert not answered(policy, MANY, MANY)[2].any()


def test_the_same_size_changes_nothing(policy: Policy) -> None:
    assert policy.certificate.identities == FEW
    for one, other in zip(answered(policy, FEW, None), answered(policy, FEW, FEW), strict=True):
        assert np.array_equal(one, other)


def test_a_smaller_gallery_adds_no_answers(policy: Policy) -> None:
    before, _, plain = answered(policy, 15, None)
    after, _, corrected = answered(policy, 15, 15)
    assert np.array_equal(plain, corrected)
    assert (after > before).all()
