"""The expensive model where the cheap one is unsure: against brute force, and on digits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.tasks.gating import gate_curve, gate_for

ITEMS = st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), min_size=1, max_size=12)


@given(ITEMS)
def test_a_curve_is_the_mean_over_random_orders_of_equal_uncertainties(items: list[tuple[int, bool, bool]]) -> None:
    uncertainty, cheap, expensive = map(np.array, zip(*items, strict=True))
    curve = gate_curve(uncertainty, cheap, expensive)
    assert curve.accuracy[0] == pytest.approx(cheap.mean())
    assert curve.accuracy[-1] == pytest.approx(expensive.mean())
    for level in range(6):  # where no equal uncertainties are split, it is what a gate does
        asked = uncertainty > level - 0.5
        wanted = np.where(asked, expensive, cheap).mean()
        assert curve.accuracy[asked.sum()] == pytest.approx(wanted)


def test_honest_uncertainty_gains_and_its_opposite_loses() -> None:
    rng = np.random.default_rng(0)
    cheap = rng.random(500) < 0.7
    everywhere = np.ones(500, bool)
    honest = rng.random(500) - 0.5 * cheap
    assert gate_curve(honest, cheap, everywhere).gain > 0.02
    assert gate_curve(-honest, cheap, everywhere).gain < -0.02
    assert gate_curve(np.zeros(500), cheap, everywhere).gain == pytest.approx(0, abs=1e-12)
    assert gate_curve(honest, cheap, everywhere).at(1) == 1


@pytest.mark.parametrize(("share", "asked"), [(0.0, 0), (0.3, 3), (0.35, 3), (1.0, 10)])
def test_a_gate_keeps_to_its_budget(share: float, asked: int) -> None:
    uncertainty = np.random.default_rng(0).permutation(10)
    assert (uncertainty > gate_for(uncertainty, share=share)).sum() == asked
    assert gate_for([1, 1, 1, 1], share=0.5) == 1  # equals stay together, below the budget


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InputError, match="share"):
        gate_for([0.1], share=1.5)
    with pytest.raises(InputError, match="one entry per item"):
        gate_curve([0.1, 0.2], [True], [True])


def test_uncertainty_says_which_spoiled_digits_to_look_at_again(digits) -> None:
    """The expensive way is the clean picture: taking it again where the first one is uncertain."""
    right = []
    for query in (digits.mixed, digits.clean):
        gaps = torch.cdist(query.mean, digits.clean.mean).fill_diagonal_(torch.inf)
        right.append(digits.labels[gaps.argmin(1).numpy()] == digits.labels)
    curve = gate_curve(digits.mixed.uncertainty, *right)
    assert curve.accuracy[-1] - curve.accuracy[0] > 0.05
    # A third of the pictures again brings most of what all of them again would.
    assert curve.at(1 / 3) - curve.at(0) > 0.7 * (curve.at(1) - curve.at(0))
