import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from howsure.data import load
from howsure.embeddings import Point, VonMisesFisher
from howsure.errors import InputError
from howsure.losses import ExpectedLikelihood
from howsure.recipe import recipe_for
from howsure.training import run_training


def embedding(n: int = 6, dim: int = 3) -> VonMisesFisher:
    rng = torch.Generator().manual_seed(0)
    direction = F.normalize(torch.randn(n, dim, generator=rng, dtype=torch.float64), dim=-1)
    return VonMisesFisher(direction, torch.linspace(0.5, 30, n, dtype=torch.float64))


def test_logits_are_integrals_over_the_sphere() -> None:
    """∫ vMF(z; f) vMF(z; w) dz on a grid of the sphere in three dimensions."""
    torch.manual_seed(0)
    loss, e = ExpectedLikelihood(4, 3), embedding()
    at, weights = np.polynomial.legendre.leggauss(200)
    turns = np.linspace(0, 2 * math.pi, 200, endpoint=False)
    height, turn = np.meshgrid(at, turns, indexing="ij")
    wide = np.sqrt(1 - height**2)
    z = np.stack([wide * np.cos(turn), wide * np.sin(turn), height], -1)
    area = np.broadcast_to(weights[:, None], height.shape) * (2 * math.pi / len(turns))

    def density(v: np.ndarray) -> np.ndarray:
        k = np.linalg.norm(v)
        return k / (4 * math.pi * math.sinh(k)) * np.exp(z @ v)

    f = (e.concentration[:, None] * e.direction).numpy()
    w = loss.weight.detach().double().numpy()
    wanted = torch.tensor([[(area * density(a) * density(b)).sum() for b in w] for a in f])
    assert torch.allclose(loss.logits(e).softmax(1), wanted / wanted.sum(1, keepdim=True), rtol=1e-6)


def test_surer_of_the_right_class_costs_less_and_of_the_wrong_one_more() -> None:
    loss = ExpectedLikelihood(3, 3)
    loss.weight.data = 10 * torch.eye(3)
    for labels, sign in ((torch.tensor([0]), -1), (torch.tensor([1]), 1)):
        costs = torch.stack(
            [loss(VonMisesFisher(torch.tensor([[1.0, 0, 0]]), torch.tensor([k])), labels) for k in (0.0, 1.0, 10.0)]
        )
        assert (sign * costs.diff() > 0).all()
        assert costs[0].item() == pytest.approx(math.log(3), rel=1e-5)  # no evidence: the prior


@pytest.mark.parametrize("dim", [2, 64, 1024])
@pytest.mark.parametrize("k", [0.0, 1e-3, 10.0, 1e6])
def test_finite_for_every_concentration(dim: int, k: float) -> None:
    loss = ExpectedLikelihood(3, dim)
    direction = F.normalize(torch.randn(4, dim), dim=-1).requires_grad_()
    concentration = torch.full((4,), k, requires_grad=True)
    value = loss(VonMisesFisher(direction, concentration), torch.tensor([0, 1, 2, 0]))
    value.backward()
    assert torch.isfinite(value)
    assert value.dtype == torch.float32
    assert all(torch.isfinite(t.grad).all() for t in (direction, concentration, loss.weight))


def test_finite_where_picture_and_class_are_opposite() -> None:
    loss = ExpectedLikelihood(2, 2)
    loss.weight.data = torch.eye(2)
    direction = torch.tensor([[-1.0, 0.0]], requires_grad=True)
    loss(VonMisesFisher(direction, torch.ones(1)), torch.tensor([0])).backward()
    assert torch.isfinite(direction.grad).all()


def test_what_it_cannot_use() -> None:
    loss, labels = ExpectedLikelihood(2, 3), torch.tensor([0, 1, 1])
    with pytest.raises(InputError, match="norm head"):
        loss(Point(torch.eye(3)), labels)
    with pytest.raises(InputError, match="dimension: expected 3"):
        loss(VonMisesFisher(torch.eye(4)[:3], torch.ones(3)), labels)
    with pytest.raises(InputError, match="0 to 1"):
        loss(VonMisesFisher(torch.eye(3), torch.ones(3)), labels + 1)
    with pytest.raises(InputError, match="no direction"):
        loss(VonMisesFisher(torch.zeros(3, 3), torch.zeros(3)), labels)
    with pytest.raises(InputError, match="finite"):
        loss(VonMisesFisher(torch.eye(3), torch.full((3,), torch.nan)), labels)
    with pytest.raises(InputError, match="another class"):
        ExpectedLikelihood(1, 3)


def test_learns_digits() -> None:
    trained = run_training(load("digits:train"), recipe_for("digits").but(method="vmf", epochs=12))
    test = load("digits:test")
    embedding, labels = trained.embedder.encode(test), np.array(test.labels)
    cosine = (embedding.direction @ embedding.direction.T).fill_diagonal_(-2)
    assert (labels[cosine.argmax(1)] == labels).mean() > 0.9
