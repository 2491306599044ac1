import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from howsure.errors import InputError
from howsure.numerics.conformal import ConformalReference, upper_p


def counted(score: float, reference: np.ndarray) -> float:
    """By brute force: every distance, sorted."""
    k, n = math.isqrt(len(reference)), len(reference)
    own = np.sort(np.abs(reference - score))[k - 1]
    others = np.array([np.sort(np.abs(np.delete(reference, i) - reference[i]))[k - 1] for i in range(n)])
    return float((1 + (others >= own).sum()) / (n + 1)) * min(1.0, others.max() / own if own else 1.0)


@pytest.mark.parametrize("ties", [False, True])
def test_is_what_counting_says(ties: bool) -> None:
    rng = np.random.default_rng(0)
    reference, scores = rng.normal(0, 8, 51), rng.normal(0, 16, 40)
    if ties:
        reference, scores = reference.round(), scores.round()
    found = ConformalReference.fit(reference).p(scores)
    assert found == pytest.approx([counted(score, reference) for score in scores])


@pytest.mark.parametrize("draw", [torch.randn, torch.rand, lambda *shape: torch.randn(*shape).exp().round()])
def test_false_alarms_are_at_most_as_often_as_promised(draw: Callable[..., torch.Tensor]) -> None:
    torch.manual_seed(0)
    reference, fresh = draw(2000, 99).numpy(), draw(2000, 20).numpy()
    p = np.stack([ConformalReference.fit(known).p(score) for score, known in zip(fresh, reference, strict=True)])
    for level in (0.02, 0.05, 0.1, 0.3):
        # 2,000 independent groups: three standard errors of a group mean
        assert (p <= level).mean() <= level + 3 * (level / 2000) ** 0.5


def test_both_ends_are_extreme_and_so_is_a_gap_in_the_middle() -> None:
    modes = np.concatenate([np.linspace(0, 1, 500), np.linspace(3, 4, 500)])
    low, first, between, second, high = ConformalReference.fit(modes).p(np.array([-1.0, 0.5, 2.0, 3.5, 5.0]))
    assert low == pytest.approx(high)
    assert low == pytest.approx(between, rel=0.1)
    assert 0 < low < 1 / 1001
    assert min(first, second) > 0.5


def test_beyond_all_references_p_still_orders() -> None:
    found = ConformalReference.fit(np.random.default_rng(0).normal(size=200)).p(np.array([4.0, 8.0, 50.0, -90.0]))
    assert found[0] <= 1 / 201
    assert (np.diff(found) < 0).all()


@pytest.mark.parametrize("few", [0, 1])
def test_too_few_reference_scores_are_refused(few: int) -> None:
    with pytest.raises(InputError, match="at least two"):
        ConformalReference.fit(np.zeros(few))


def test_two_are_enough_to_say_something() -> None:
    found = ConformalReference.fit(np.array([0.0, 1.0])).p(np.array([0.5, 9.0]))
    assert found.tolist() == pytest.approx([1.0, 1 / 3 / 8])


def test_one_sided_p_counts_what_is_as_large() -> None:
    rng = np.random.default_rng(0)
    reference, scores = rng.integers(0, 9, 50).astype(float), rng.integers(-2, 12, 40).astype(float)
    counted = [(1 + (reference >= score).sum()) / 51 for score in scores]
    assert upper_p(scores, reference) == pytest.approx(counted)
    assert (np.diff(upper_p(np.sort(scores), reference)) <= 0).all()  # large is extreme
