"""Closed forms against Hessians by autograd, for every variant and geometry."""

from collections.abc import Callable
from typing import get_args

import pytest
import torch
from pytorch_metric_learning import losses
from torch import Tensor
from torch.nn.functional import normalize

from howsure.errors import InputError
from howsure.posteriors.laplace.curvature import Curvature, Geometry, loss_curvature, pair_curvature
from howsure.posteriors.laplace.pairs import PairGraph, Variant
from posteriors.closeness import assert_close

LABELS = torch.tensor([0, 0, 0, 0, 1, 1])
N, D = 6, 3
Z = torch.randn(N, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
MINED = (torch.tensor([0, 0, 1, 4, 0]), torch.tensor([1, 2, 0, 5, 1]), torch.tensor([4, 5, 5, 0, 4]))
PAIRS = {"all": PairGraph.from_labels(LABELS), "mined": PairGraph.from_mined(MINED, N)}


def clip(matrix: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(matrix)
    return vectors @ torch.diag(values.clamp_min(0)) @ vectors.T


def brute_force(pairs: PairGraph, variant: str, geometry: str, z: Tensor = Z) -> Tensor:
    """(B·D, B·D) by autograd; written without Laplacians and without closed forms."""
    size = z.numel()

    def loss(a: Tensor, b: Tensor) -> Tensor:
        weights = (
            pairs.positive if variant == "pos" else pairs.positive - pairs.negative
        ) / 2  # each pair is met twice
        if geometry == "arccos":
            return (weights * (1 - normalize(a, dim=1) @ normalize(b, dim=1).T)).sum()
        return (weights * (a[:, None] - b).square().sum(-1) / 2).sum()

    def hessian(at: Tensor) -> Tensor:
        if variant == "fix":  # the other point of each pair held still, either way round
            one = torch.autograd.functional.hessian(lambda a: loss(a, at) + loss(at, a), at)
            return one.reshape(size, size)
        return torch.autograd.functional.hessian(lambda a: loss(a, a), at).reshape(size, size)

    if geometry in ("arccos", "free"):
        return clip(hessian(z)) if variant == "psd" else hessian(z)
    jacobian = torch.autograd.functional.jacobian(lambda a: normalize(a, dim=1), z).reshape(size, size)
    inner = brute_force(pairs, variant, "free", normalize(z, dim=1))
    return jacobian.T @ inner @ jacobian


@pytest.fixture(params=[(p, v, g) for p in PAIRS for v in get_args(Variant) for g in get_args(Geometry)], ids=str)
def case(request: pytest.FixtureRequest) -> tuple[Curvature, Tensor]:
    pairs, variant, geometry = request.param
    exact = brute_force(PAIRS[pairs], variant, geometry)
    return pair_curvature(Z, PAIRS[pairs], variant=variant, geometry=geometry), exact.reshape(N, D, N, D)


def test_every_form_agrees_with_autograd(case: tuple[Curvature, Tensor]) -> None:
    curvature, exact = case
    assert_close(curvature.dense(), exact, atol=1e-10, rtol=1e-10)
    blocks = torch.stack([exact[:, i, :, i] for i in range(D)])
    assert_close(curvature.blocks(), blocks, atol=1e-10, rtol=1e-10)
    assert_close(curvature.shared(), blocks.mean(0), atol=1e-10, rtol=1e-10)


def test_roots_multiply_to_the_curvature_or_are_refused(case: tuple[Curvature, Tensor]) -> None:
    curvature, exact = case
    flat = exact.reshape(N * D, N * D)
    if torch.linalg.eigvalsh(flat)[0] < -1e-9:
        with pytest.raises(InputError, match="use variant psd or pos"):
            curvature.root()
        with pytest.raises(InputError, match="use variant psd or pos"):
            curvature.cotangents(1)
        return
    columns = curvature.root().flatten(1)
    assert_close(columns.T @ columns, flat, atol=1e-9, rtol=1e-9)
    drawn = curvature.cotangents(40_000, generator=torch.Generator().manual_seed(1)).flatten(1)
    error = (drawn.T @ drawn / len(drawn) - flat).norm() / flat.norm()
    assert error < 0.05


def contrastive(z: Tensor) -> Tensor:
    """What pytorch-metric-learning's contrastive loss says it is: the mean of the non-zero terms of each kind."""
    u = normalize(z, dim=1)
    first, second = torch.triu_indices(N, N, 1)
    distance = (u[first] - u[second]).norm(dim=1)
    same = LABELS[first] == LABELS[second]
    return distance[same].mean() + (1 - distance[~same])[distance[~same] < 1].mean()


@pytest.mark.parametrize(
    ("loss", "by_hand"), [(losses.ContrastiveLoss(), contrastive), (losses.NTXentLoss(), None)], ids=["cdist", "cosine"]
)
def test_any_loss_is_taken_through_its_hessian(
    loss: torch.nn.Module, by_hand: Callable[[Tensor], Tensor] | None
) -> None:
    exact = torch.autograd.functional.hessian(by_hand or (lambda z: loss(z, LABELS)), Z).reshape(N * D, N * D)
    curvature = loss_curvature(lambda z: loss(z, LABELS), Z)
    assert_close(curvature.dense().reshape(N * D, N * D), clip(exact))
    columns = curvature.root().flatten(1)
    assert_close(columns.T @ columns, clip(exact), atol=1e-9, rtol=1e-9)


def test_a_loss_made_of_pairs_is_their_curvature() -> None:
    def value(z: Tensor) -> Tensor:
        return sum((z[a] - z[b]).square().sum() / 2 for a in range(N) for b in range(a) if LABELS[a] == LABELS[b])

    expected = pair_curvature(Z, PAIRS["all"], geometry="free").dense()
    assert_close(loss_curvature(value, Z).dense(), expected, atol=1e-10, rtol=1e-10)


def test_what_cannot_be_curved() -> None:
    with pytest.raises(InputError, match="free or euclidean or arccos"):
        pair_curvature(Z, PAIRS["all"], geometry="round")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="with a direction"):
        pair_curvature(torch.zeros(N, D), PAIRS["all"])
    with pytest.raises(InputError, match="one row for each item"):
        pair_curvature(Z[:3], PAIRS["all"])
    with pytest.raises(InputError, match="items x dimensions"):
        loss_curvature(torch.sum, torch.zeros(1000, 5))
    with pytest.raises(InputError, match="smooth"):
        loss_curvature(lambda z: z.norm(dim=1).sum(), torch.zeros(N, D))
