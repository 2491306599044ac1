import numpy as np
import pytest
import torch
from pytorch_metric_learning import distances, losses, miners
from torch import Tensor
from torch.nn import functional as F

import references
from howsure.embeddings import Gaussian, Point
from howsure.errors import InputError
from howsure.losses import LOSSES, MINERS, ClosedFormSampledDistance, OnMeans, build_loss


def batch(classes: int = 3, each: int = 4, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(each)
    centres = torch.randn(classes, 5, generator=rng)
    return F.normalize(centres[labels] + 0.8 * torch.randn(len(labels), 5, generator=rng), dim=-1), labels


def embedding(points: Tensor) -> Gaussian:
    return Gaussian(points, torch.linspace(0.1, 0.6, len(points))[:, None])


# Closed-form sampled distance


def test_csd_against_a_loop() -> None:
    points, labels = batch()
    e = embedding(points)
    wanted = references.csd(
        points.double().numpy(), e.variance.double().numpy(), labels.numpy(), scale=3.0, offset=4.0, weight=0.01
    )
    ours = ClosedFormSampledDistance(scale=3.0, offset=4.0, weight=0.01)(e, labels)
    assert ours.item() == pytest.approx(wanted, rel=1e-5)


def test_csd_gradients_are_finite_even_for_equal_pictures() -> None:
    points, labels = batch()
    points[1] = points[0]
    mean, scale = points.requires_grad_(), torch.full((len(points), 1), 1e-3, requires_grad=True)
    loss = ClosedFormSampledDistance()
    loss(Gaussian(mean, scale), labels).backward()
    for tensor in (mean, scale, *loss.parameters()):
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()
        assert tensor.grad.any()


def test_csd_falls_when_classes_part() -> None:
    points, labels = batch()
    apart = F.one_hot(labels, 5).float()
    loss = ClosedFormSampledDistance()
    assert loss(embedding(apart), labels) < loss(embedding(points), labels)


def test_csd_makes_ambiguous_pictures_unsure() -> None:
    """A picture between two classes lowers its cost by a larger variance; a clear one by a smaller."""
    points = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.7, 0.7]])
    labels = torch.tensor([0, 0, 1, 1, 0])
    scale = torch.full((5, 1), 0.3, requires_grad=True)
    ClosedFormSampledDistance(weight=0.0)(Gaussian(points, scale), labels).backward()
    assert scale.grad[4] < scale.grad[0]


def test_csd_needs_doubt_and_both_kinds_of_pairs() -> None:
    points, labels = batch()
    with pytest.raises(InputError, match="gaussian head"):
        ClosedFormSampledDistance()(Point(points), labels)
    for one_kind in (torch.zeros(len(points)), torch.arange(len(points))):
        with pytest.raises(InputError, match="class-balanced"):
            ClosedFormSampledDistance()(embedding(points), one_kind)
    with pytest.raises(InputError, match="class-balanced"):
        ClosedFormSampledDistance()(embedding(points)[:1], labels[:1])


def test_csd_takes_every_pair() -> None:
    with pytest.raises(InputError, match="every pair"):
        build_loss("csd", miner="hard")


# pytorch-metric-learning, taken as it is


@pytest.mark.parametrize("power", [1, 2])
def test_contrastive_is_theirs(power: int) -> None:
    points, labels = batch()
    theirs = losses.ContrastiveLoss(pos_margin=0.0, neg_margin=0.9, distance=distances.LpDistance(power=power))
    ours = build_loss("contrastive", options={"power": power, "neg_margin": 0.9})
    assert torch.equal(ours(embedding(points), labels), theirs(points, labels))


def test_triplet_is_theirs() -> None:
    points, labels = batch()
    wanted = losses.TripletMarginLoss(margin=0.4)(points, labels)
    assert torch.equal(build_loss("triplet", options={"margin": 0.4})(Point(points), labels), wanted)


@pytest.mark.parametrize("name", ["SupConLoss", "MultiSimilarityLoss", "CircleLoss", "NTXentLoss"])
def test_any_class_of_theirs_by_name(name: str) -> None:
    points, labels = batch()
    wanted = getattr(losses, name)()(points, labels)
    assert torch.equal(build_loss(name)(Point(points), labels), wanted)


def test_any_loss_and_miner_of_theirs() -> None:
    points, labels = batch()
    loss, miner = losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner()
    wanted = loss(points, labels, miner(points, labels))
    assert torch.equal(OnMeans(loss, miner)(embedding(points), labels), wanted)


def test_a_loss_with_weights_of_its_own() -> None:
    points, labels = batch()
    loss = build_loss("ProxyAnchorLoss", options={"num_classes": 3, "embedding_size": 5})
    assert [tuple(p.shape) for p in loss.parameters()] == [(3, 5)]
    assert torch.isfinite(loss(Point(points), labels))


def mined(kind: str, points: Tensor, labels: Tensor, *, margin: float) -> list[tuple[int, ...]]:
    loss = build_loss("triplet", miner=kind, options={"margin": margin})
    found = loss.miner(points, labels)
    return [tuple(row) for row in torch.stack(found, 1).tolist()]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["easy", "semihard", "hard", "hardest"])
def test_miners_find_what_their_names_say(kind: str, seed: int) -> None:
    points, labels = batch(seed=seed)
    found = mined(kind, points, labels, margin=0.3)
    wanted = references.triplets(points.double().numpy(), labels.numpy(), kind, margin=0.3)
    assert wanted
    assert len(found) == len(set(found))
    assert set(found) == wanted


def test_kinds_part_all_triplets() -> None:
    points, labels = batch()
    kinds = [set(mined(kind, points, labels, margin=0.3)) for kind in ("easy", "semihard", "hard")]
    assert sum(map(len, kinds)) == len(set.union(*kinds)) == 12 * 3 * 8


def test_all_mines_nothing_away() -> None:
    assert build_loss("triplet", miner="all").miner is None


def test_hard_triplets_cost_more_than_the_margin_and_easy_ones_nothing() -> None:
    points, labels = batch()
    cost = {kind: build_loss("triplet", miner=kind)(Point(points), labels).item() for kind in MINERS}
    assert cost["easy"] == 0
    assert 0 < cost["semihard"] <= 0.2 < cost["hard"]


@pytest.mark.parametrize("name", ["contrastive", "triplet", "SupConLoss"])
@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 2, 3], [0]])
def test_a_batch_that_teaches_nothing_is_no_zero_loss(name: str, labels: list[int]) -> None:
    with pytest.raises(InputError, match="class-balanced"):
        build_loss(name)(Point(torch.eye(4)[: len(labels)]), torch.tensor(labels))


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="did you mean triplet"):
        build_loss("triplets")
    with pytest.raises(InputError, match="did you mean ArcFaceLoss"):
        build_loss("ArcfaceLoss")
    for name in ("__doc__", "_x", "numpy"):
        with pytest.raises(InputError, match="csd"):
            build_loss(name)
    with pytest.raises(InputError, match="semihard"):
        build_loss("triplet", miner="hardish")


@pytest.mark.parametrize("name", LOSSES)
def test_unknown_options(name: str) -> None:
    with pytest.raises(InputError, match="temperature"):
        build_loss(name, options={"temperature": 1})


def test_options_are_left_as_they_were() -> None:
    options = {"power": 1.0}
    build_loss("contrastive", options=options)
    build_loss("triplet", options=(other := {}))
    assert options == {"power": 1.0}
    assert other == {}


def test_contrastive_pulls_pairs_together() -> None:
    points, labels = batch()
    mean = points.clone().requires_grad_()
    build_loss("contrastive")(Point(mean), labels).backward()
    step = Point(points - 0.05 * mean.grad)
    before, after = (build_loss("contrastive")(e, labels).item() for e in (Point(points), step))
    assert np.isfinite(after)
    assert after < before
