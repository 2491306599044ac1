import numpy as np
import pytest
import torch

from howsure.errors import InputError
from howsure.numerics.conformal import two_sided_p


def test_is_what_counting_says() -> None:
    rng = np.random.default_rng(0)
    usual, scores = rng.integers(0, 20, 51).astype(float), rng.integers(-2, 23, 40).astype(float)  # many ties
    expected = [
        min(1.0, 2 * min((1 + (usual >= score).sum()) / 52, (1 + (usual <= score).sum()) / 52)) for score in scores
    ]
    found = two_sided_p(torch.from_numpy(scores), torch.from_numpy(np.sort(usual)))
    assert found.numpy() == pytest.approx(expected)


@pytest.mark.parametrize("draw", [torch.randn, torch.rand, lambda *shape: torch.randn(*shape).exp().round()])
def test_false_alarms_are_at_most_as_often_as_said(draw: object) -> None:
    torch.manual_seed(0)
    assert callable(draw)
    usual, fresh = draw(2000, 99).sort(1).values, draw(2000, 20)
    p = torch.stack([two_sided_p(score, known) for score, known in zip(fresh, usual, strict=True)])
    for level in (0.02, 0.05, 0.1, 0.3):
        # 2,000 independent groups: three standard errors of a group mean
        assert (p <= level).float().mean() <= level + 3 * (level / 2000) ** 0.5


def test_both_ends_are_unusual_and_the_middle_is_not() -> None:
    usual = torch.linspace(0, 1, 999)
    low, middle, high = two_sided_p(torch.tensor([-1.0, 0.5, 2.0]), usual)
    assert low == high == pytest.approx(0.002)
    assert middle == 1


def test_no_usual_scores_are_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        two_sided_p(torch.zeros(3), torch.zeros(0))
