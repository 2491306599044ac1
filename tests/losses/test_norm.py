import math
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from howsure.data import load
from howsure.embeddings import Point, VonMisesFisher, point_estimates
from howsure.errors import InputError
from howsure.heads import NormHead
from howsure.losses import NormCrossEntropy, NormTriplet
from howsure.metrics import r_auroc, recall_at_k
from howsure.neighbours import neighbours
from howsure.recipe import recipe_for
from howsure.training import run_training

LABELS = torch.tensor([0, 0, 1, 1, 2, 2])
RECIPE = recipe_for("digits").but(method="norm", backbone="mlp", epochs=8, learning_rate=3e-3)


def vectors(*, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def embedding(z: Tensor) -> VonMisesFisher:
    return VonMisesFisher(F.normalize(z, dim=-1), z.norm(dim=-1))


def test_cross_entropy_against_a_softmax_of_the_free_vectors() -> None:
    loss, z = NormCrossEntropy(3, 3).double(), vectors()
    share = torch.exp(z @ loss.classifier.weight.T + loss.classifier.bias)
    wanted = -(share[torch.arange(6), LABELS] / share.sum(1)).log().mean()
    assert loss(embedding(z), LABELS).item() == pytest.approx(wanted.item())


@pytest.mark.parametrize("margin", [0.2, 1.0])
def test_triplets_against_a_loop(margin: float) -> None:
    """The mean over the triplets that cost anything, the distances those of the free vectors."""
    z, costs = vectors(), []
    for a, p, n in permutations(range(6), 3):
        if LABELS[a] == LABELS[p] != LABELS[n]:
            costs.append(max(0.0, ((z[a] - z[p]).norm() - (z[a] - z[n]).norm() + margin).item()))
    wanted = sum(costs) / sum(cost > 0 for cost in costs)
    assert NormTriplet(margin=margin)(embedding(z), LABELS).item() == pytest.approx(wanted)


def test_length_costs_where_the_answer_is_wrong_and_saves_where_it_is_right() -> None:
    loss = NormCrossEntropy(3, 3)
    loss.classifier.weight.data, loss.classifier.bias.data = torch.eye(3), torch.zeros(3)
    for label, sign in ((0, -1), (1, 1)):
        costs = [
            loss(embedding(torch.tensor([[k, 0.0, 0.0]])), torch.tensor([label])).item() for k in (1e-6, 1.0, 10.0)
        ]
        assert costs[0] == pytest.approx(math.log(3), rel=1e-5)  # no evidence: the prior
        assert (sign * np.diff(costs) > 0).all()
    apart = torch.eye(3)[LABELS] + 0.01 * torch.eye(3)[LABELS.flip(0)]
    short, long = (NormTriplet()(embedding(scale * apart), LABELS).item() for scale in (0.1, 10.0))
    assert short > long == 0


@pytest.mark.parametrize("loss", [NormCrossEntropy(3, 3), NormTriplet()])
def test_gradients_reach_length_and_direction(loss: torch.nn.Module) -> None:
    z = vectors().float().requires_grad_()
    loss(embedding(z), LABELS).backward()
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()
    along = (z.grad * z).sum(-1)
    assert along.abs().max() > 1e-3
    assert (z.grad - along[:, None] * z / z.square().sum(-1, keepdim=True)).abs().max() > 1e-3


@pytest.mark.parametrize("loss", [NormCrossEntropy(3, 3), NormTriplet()])
def test_refuses_what_has_no_length(loss: torch.nn.Module) -> None:
    z = vectors().float()
    with pytest.raises(InputError, match="concentration"):
        loss(Point(z), LABELS)
    with pytest.raises(InputError, match="length 1"):
        loss(embedding(z * 0), LABELS)
    with pytest.raises(InputError, match="finite"):
        loss(embedding(z * torch.nan), LABELS)


def test_refuses_other_dimensions_and_classes() -> None:
    with pytest.raises(InputError, match="expected 2, as the classifier has, got 3"):
        NormCrossEntropy(3, 2)(embedding(vectors().float()), LABELS)
    with pytest.raises(InputError, match="0 to 1"):
        NormCrossEntropy(2, 3)(embedding(vectors().float()), LABELS)
    with pytest.raises(InputError, match="2 or more"):
        NormCrossEntropy(1, 3)
    with pytest.raises(InputError, match="two classes or more"):
        NormTriplet()(embedding(vectors().float()), torch.zeros(6, dtype=torch.long))


def test_short_vectors_are_the_uncertain_ones() -> None:
    torch.manual_seed(0)
    e = NormHead(5, 4)(torch.rand(20, 5) * torch.logspace(-2, 3, 20)[:, None])
    assert torch.equal(e.uncertainty.argsort(), e.concentration.argsort(descending=True))


@pytest.mark.parametrize("loss", ["cross-entropy", "triplet"])
def test_the_length_predicts_errors_on_digits(loss: str) -> None:
    done = run_training(load("digits:train"), RECIPE.but(loss=loss))
    test = load("digits:test")
    e, labels = done.embedder.encode(test), np.array(test.labels)
    near = neighbours(point_estimates(e), point_estimates(e), leave_one_out=True, depth=1).positions
    right = labels[near] == labels[:, None]
    assert recall_at_k(right, 1) > 0.85
    assert r_auroc(e.uncertainty.numpy(), right[:, 0]) > 0.6
    assert done.embedder.card["head"] == "norm"


def test_without_a_word_it_is_cross_entropy() -> None:
    digits = load("digits:train")
    named, default = (run_training(digits, RECIPE.but(epochs=1, loss=loss)) for loss in ("cross-entropy", None))
    assert named.embedder.fingerprint == default.embedder.fingerprint


def test_options_and_other_losses() -> None:
    digits = load("digits:train")
    with pytest.raises(InputError, match="cross-entropy or triplet"):
        run_training(digits, RECIPE.but(loss="csd"))
    with pytest.raises(InputError, match="no miner"):
        run_training(digits, RECIPE.but(loss="triplet", miner="hard"))
    with pytest.raises(InputError, match="NormTriplet"):
        run_training(digits, RECIPE.but(loss="triplet").but(loss_options={"gap": 1}))
    one, two = (
        run_training(digits, RECIPE.but(epochs=1, loss="triplet").but(loss_options={"margin": margin})).history[0].loss
        for margin in (0.2, 2.0)
    )
    assert one < two
