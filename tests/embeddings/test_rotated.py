"""Embeddings in other axes: means turn, variances are those along the new axes, no distance changes."""

from collections.abc import Callable

import pytest
import torch

from cases import CASES, D
from howsure.compare import expected_squared_distance
from howsure.embeddings import Draws, Embedding, Gaussian

TURN = torch.linalg.qr(torch.randn(D, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
SINGLE = [name for name in CASES if not isinstance(CASES[name](), Draws)]


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_means_turn_and_distances_stay(make: Callable[[], Embedding]) -> None:
    embedding = make()
    turned = embedding.rotated(TURN)
    assert turned.family == embedding.family
    assert torch.allclose(turned.mean, embedding.mean @ TURN)
    assert torch.allclose(turned.point_estimate, embedding.point_estimate @ TURN)
    assert torch.allclose(turned.uncertainty, embedding.uncertainty)
    before, after = expected_squared_distance(embedding, embedding), expected_squared_distance(turned, turned)
    assert torch.allclose(before, after, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in SINGLE if "von Mises" not in name])
def test_variances_are_those_along_the_new_axes(name: str) -> None:
    """Against samples that are turned one by one."""
    embedding = CASES[name]()
    samples = embedding.sample(40_000, torch.Generator().manual_seed(1)) @ TURN
    seen = samples.var(0, correction=0)
    assert torch.allclose(embedding.rotated(TURN).variance, seen, rtol=0.1, atol=1e-12)


def test_there_and_back_with_one_scale() -> None:
    embedding = CASES["gaussian, one scale"]()
    assert isinstance(embedding, Gaussian)
    back = embedding.rotated(TURN).rotated(TURN.T)
    assert torch.allclose(back.mean, embedding.mean)
    assert torch.equal(back.tensors()["scale"], embedding.scale)
