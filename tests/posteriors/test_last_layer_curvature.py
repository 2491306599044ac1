"""Last-layer curvature against the Gauss-Newton matrix of the whole weight matrix, by brute force."""

from collections.abc import Callable
from typing import get_args

import pytest
import torch
from torch import Tensor

from howsure.errors import InputError
from howsure.posteriors.laplace.curvature import Curvature, Geometry, pair_curvature
from howsure.posteriors.laplace.last_layer_curvature import WIDEST, Diagonal, Full, Known, LastLayer, LowRankRows
from howsure.posteriors.laplace.pairs import PairGraph, Variant
from posteriors.closeness import assert_close

B, D, M = 6, 3, 4
GENERATOR = torch.Generator().manual_seed(0)
WEIGHT = torch.randn(D, M, generator=GENERATOR, dtype=torch.float64)
LABELS = torch.tensor([0, 0, 0, 0, 1, 1])
BATCHES = [torch.randn(B, M, generator=GENERATOR, dtype=torch.float64) for _ in range(3)]
CENTRE = torch.randn(M, generator=GENERATOR, dtype=torch.float64)
NEW = torch.randn(5, M, generator=GENERATOR, dtype=torch.float64)
KINDS = [(variant, geometry) for variant in get_args(Variant) for geometry in get_args(Geometry)]


def curvatures(variant: Variant, geometry: Geometry) -> list[Curvature]:
    return [
        pair_curvature(phi @ WEIGHT.T, PairGraph.from_labels(LABELS), variant=variant, geometry=geometry)
        for phi in BATCHES
    ]


def brute_force(found: list[Curvature]) -> Tensor:
    """(D·M, D·M): Σ J^T H J with J by autograd. H itself is checked elsewhere."""
    total = torch.zeros(D * M, D * M, dtype=torch.float64)
    for phi, curvature in zip(BATCHES, found, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda w, phi=phi: phi @ w.T, WEIGHT).reshape(B * D, D * M)
        total += jacobian.T @ curvature.dense().reshape(B * D, B * D) @ jacobian
    return total


def accumulated(make: Callable[[], LastLayer], found: list[Curvature], *, prior: float | None = 0.5) -> Known:
    gathered = make()
    for phi, curvature in zip(BATCHES, found, strict=True):
        gathered.add(phi, curvature)
    return gathered.posterior(WEIGHT, centre=CENTRE, scale=2.0, prior=prior)


@pytest.mark.parametrize(("variant", "geometry"), KINDS)
def test_the_diagonal_is_that_of_the_whole_matrix(variant: Variant, geometry: Geometry) -> None:
    found = curvatures(variant, geometry)
    h = (2 * brute_force(found).diagonal()).clamp_min(0).reshape(D, M)
    weights, _ = accumulated(lambda: Diagonal(M, D), found)
    assert_close(weights.variance(NEW), ((NEW - CENTRE)[:, None].square() / (h + 0.5)).sum(-1))


@pytest.mark.parametrize("structure", [lambda: Full(M), lambda: LowRankRows(M, M)], ids=["full", "low rank"])
@pytest.mark.parametrize("variant", ["pos", "psd"])
def test_without_a_sphere_the_shared_block_is_exact(structure: Callable[[], LastLayer], variant: Variant) -> None:
    found = curvatures(variant, "free")
    precision = 2 * brute_force(found) + 0.5 * torch.eye(D * M, dtype=torch.float64)
    features = torch.einsum("nm,ij->nijm", NEW - CENTRE, torch.eye(D, dtype=torch.float64)).reshape(-1, D, D * M)
    exact = torch.einsum("nip,pq,niq->ni", features, precision.inverse(), features)
    assert_close(accumulated(structure, found)[0].variance(NEW).expand(-1, D), exact)


@pytest.mark.parametrize(("variant", "geometry"), KINDS)
def test_elsewhere_it_is_the_mean_of_the_blocks(variant: Variant, geometry: Geometry) -> None:
    found = curvatures(variant, geometry)
    exact = brute_force(found).reshape(D, M, D, M)
    values, vectors = torch.linalg.eigh(2 * torch.stack([exact[i, :, i] for i in range(D)]).mean(0))
    precision = (vectors * values.clamp_min(0)) @ vectors.T + 0.5 * torch.eye(M, dtype=torch.float64)
    gap = NEW - CENTRE
    expected = torch.einsum("nm,mk,nk->n", gap, precision.inverse(), gap)[:, None]
    assert_close(accumulated(lambda: Full(M), found)[0].variance(NEW), expected)
    if variant in ("pos", "psd") and geometry != "arccos":
        assert_close(accumulated(lambda: LowRankRows(M, M), found)[0].variance(NEW), expected)


def test_a_column_of_ones_is_the_bias() -> None:
    """Which pairs without a sphere do not see at all."""
    found = curvatures("pos", "free")
    gathered = Diagonal(M + 1, D)
    for phi, curvature in zip(BATCHES, found, strict=True):
        gathered.add(torch.cat([phi, torch.ones(B, 1)], 1), curvature)
    assert gathered.sum[:, :M].min() > 1
    assert_close(gathered.sum[:, M], torch.zeros(D, dtype=torch.float64), atol=1e-12, rtol=0)


def test_low_rank_leaves_the_prior_in_the_other_directions() -> None:
    found = curvatures("pos", "free")
    block = 2 * brute_force(found)[:M, :M]
    values, vectors = torch.linalg.eigh(block)
    values[: M - 2] = 0
    expected = torch.einsum("nm,m->n", ((NEW - CENTRE) @ vectors).square(), 1 / (values + 0.5))[:, None]
    assert_close(accumulated(lambda: LowRankRows(M, 2), found)[0].variance(NEW), expected)


@pytest.mark.parametrize("make", [lambda: Full(M), lambda: LowRankRows(M, M), lambda: Diagonal(M, D)])
def test_the_prior_is_that_of_the_evidence(make: Callable[[], LastLayer]) -> None:
    found = curvatures("pos", "free")
    prior = accumulated(make, found, prior=None)[1]
    whole = 2 * brute_force(found)
    h = whole.diagonal() if isinstance(make(), Diagonal) else torch.linalg.eigvalsh(whole)
    assert prior * WEIGHT.square().sum().item() == pytest.approx((h / (h + prior)).sum().item())


def test_what_is_too_wide_or_negative() -> None:
    with pytest.raises(InputError, match="use last-low-rank"):
        Full(WIDEST + 1)
    with pytest.raises(InputError, match="use variant psd or pos"):
        accumulated(lambda: LowRankRows(M, M), curvatures("full", "free"))
