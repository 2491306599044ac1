import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from howsure.errors import InputError
from howsure.numerics.conformal import ConformalReference, upper_p


def counted(score: float, usual: np.ndarray) -> float:
    """By brute force: every distance, sorted."""
    k, n = math.isqrt(len(usual)), len(usual)
    own = np.sort(np.abs(usual - score))[k - 1]
    others = [np.sort(np.abs(np.delete(usual, i) - usual[i]))[k - 1] for i in range(n)]
    return float((1 + (np.array(others) >= own).sum()) / (n + 1))


@pytest.mark.parametrize("ties", [False, True])
def test_is_what_counting_says(ties: bool) -> None:
    rng = np.random.default_rng(0)
    usual, scores = rng.normal(0, 8, 51), rng.normal(0, 16, 40)
    if ties:
        usual, scores = usual.round(), scores.round()
    found = ConformalReference.of(torch.from_numpy(usual)).p(torch.from_numpy(scores))
    assert found.numpy() == pytest.approx([counted(score, usual) for score in scores])


@pytest.mark.parametrize("draw", [torch.randn, torch.rand, lambda *shape: torch.randn(*shape).exp().round()])
def test_false_alarms_are_at_most_as_often_as_said(draw: Callable[..., torch.Tensor]) -> None:
    torch.manual_seed(0)
    usual, fresh = draw(2000, 99), draw(2000, 20)
    p = torch.stack([ConformalReference.of(known).p(score) for score, known in zip(fresh, usual, strict=True)])
    for level in (0.02, 0.05, 0.1, 0.3):
        # 2,000 independent groups: three standard errors of a group mean
        assert (p <= level).float().mean() <= level + 3 * (level / 2000) ** 0.5


def test_both_ends_are_unusual_and_so_is_a_gap_in_the_middle() -> None:
    heaps = torch.cat([torch.linspace(0, 1, 500), torch.linspace(3, 4, 500)])
    low, first, between, second, high = ConformalReference.of(heaps).p(torch.tensor([-1.0, 0.5, 2.0, 3.5, 5.0]))
    assert low == high == between == pytest.approx(1 / 1001)
    assert min(first, second) > 0.5


@pytest.mark.parametrize("few", [0, 1])
def test_too_few_usual_scores_are_refused(few: int) -> None:
    with pytest.raises(InputError, match="at least two"):
        ConformalReference.of(torch.zeros(few))


def test_two_are_enough_to_say_something() -> None:
    assert ConformalReference.of(torch.tensor([0.0, 1.0])).p(torch.tensor([0.5, 9.0])).tolist() == pytest.approx(
        [1.0, 1 / 3]
    )


def test_one_sided_p_counts_what_is_as_large() -> None:
    rng = np.random.default_rng(0)
    usual, scores = rng.integers(0, 9, 50).astype(float), rng.integers(-2, 12, 40).astype(float)
    counted = [(1 + (usual >= score).sum()) / 51 for score in scores]
    assert upper_p(scores, usual) == pytest.approx(counted)
    assert (np.diff(upper_p(np.sort(scores), usual)) <= 0).all()  # large is strange
