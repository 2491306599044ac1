"""Beliefs in other axes: places turn, variances are those along the new axes, no distance changes."""

from collections.abc import Callable

import pytest
import torch

from cases import CASES, D
from howsure.compare import expected_squared_distance
from howsure.embeddings import Draws, Embedding, Gaussian

TURN = torch.linalg.qr(torch.randn(D, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
SINGLE = [name for name in CASES if not isinstance(CASES[name](), Draws)]


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_places_turn_and_distances_stay(make: Callable[[], Embedding]) -> None:
    belief = make()
    turned = belief.rotated(TURN)
    assert turned.family == belief.family
    assert torch.allclose(turned.mean, belief.mean @ TURN)
    assert torch.allclose(turned.point_estimate, belief.point_estimate @ TURN)
    assert torch.allclose(turned.uncertainty, belief.uncertainty)
    before, after = expected_squared_distance(belief, belief), expected_squared_distance(turned, turned)
    assert torch.allclose(before, after, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in SINGLE if "von Mises" not in name])
def test_variances_are_those_along_the_new_axes(name: str) -> None:
    """Against samples that are turned one by one."""
    belief = CASES[name]()
    samples = belief.sample(40_000, torch.Generator().manual_seed(1)) @ TURN
    seen = samples.var(0, correction=0)
    assert torch.allclose(belief.rotated(TURN).variance, seen, rtol=0.1, atol=1e-12)


def test_there_and_back_with_one_scale() -> None:
    belief = CASES["gaussian, one scale"]()
    assert isinstance(belief, Gaussian)
    back = belief.rotated(TURN).rotated(TURN.T)
    assert torch.allclose(back.mean, belief.mean)
    assert torch.equal(back.tensors()["scale"], belief.scale)
