import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from howsure.data import ImageSet, hold_out_classes, load
from howsure.embeddings import Gaussian, Point, VonMisesFisher
from howsure.errors import InputError
from howsure.losses import Centroids, CentroidsAndClasses, nearest_centroid
from howsure.losses.centroids import separated_directions
from howsure.metrics import auroc
from howsure.numerics.vmf import mean_resultant
from howsure.recipe import recipe_for
from howsure.training import run_training


def unit(*shape: int, seed: int) -> Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def batch(classes: int = 4, each: int = 3, *, dim: int = 5) -> tuple[Centroids, VonMisesFisher, Tensor]:
    """A loss, and pictures each of which is nearest to its own centroid."""
    torch.manual_seed(0)
    loss = Centroids(classes, dim)
    labels = torch.arange(classes).repeat_interleave(each)
    direction = F.normalize(loss.centroids[labels] + 0.2 * unit(len(labels), dim, seed=1), dim=-1)
    return loss, VonMisesFisher(direction, torch.linspace(1.0, 20.0, len(labels))), labels


def by_hand(
    e: VonMisesFisher, labels: Tensor, centroids: Tensor, *, kind: str = "great-circle", pushed: range = range(4)
) -> float:
    """Item by item, with the arc cosine; `pushed` are the classes that are also pushed from the others."""
    total = 0.0
    c = centroids.double().numpy()
    for u, y in zip(e.direction.double().numpy(), labels.tolist(), strict=True):
        cosines = c @ u
        distance = {
            "great-circle": np.arccos(np.clip(cosines, -1, 1)),
            "cosine": 1 - cosines,
            "euclidean": np.linalg.norm(c - u, axis=1),
        }[kind]
        others = np.delete(distance, y)
        total += distance[y] - (y in pushed) * (others.min() + others.sum() / len(c))
    return total / len(labels)


def likelihood(e: VonMisesFisher, labels: Tensor, centroids: Tensor) -> float:
    """For three dimensions: log C = log(k / (4π sinh k))."""
    k = e.concentration.double()
    cosine = (e.direction.double() * centroids[labels].double()).sum(-1)
    return -(torch.log(k / (4 * math.pi * torch.sinh(k))) + k * cosine).mean().item()


@pytest.mark.parametrize("kind", ["great-circle", "cosine", "euclidean"])
def test_against_a_loop(kind: str) -> None:
    ready, e, labels = batch(dim=3)
    loss = Centroids(4, 3, distance=kind)
    loss.centroids = ready.centroids.clone()
    before = loss.centroids.clone()
    wanted = by_hand(e, labels, before, kind=kind) + likelihood(e, labels, before)
    assert loss(e, labels).item() == pytest.approx(wanted, rel=1e-5, abs=1e-5)


def test_late_batches_only_pull() -> None:
    loss, e, labels = batch(dim=3)
    for iteration, pushed in ((12_816, range(4)), (12_818, range(0))):
        loss.iteration = torch.tensor(iteration)
        before = loss.centroids.clone()
        wanted = by_hand(e, labels, before, pushed=pushed) + likelihood(e, labels, before)
        assert loss(e, labels).item() == pytest.approx(wanted, rel=1e-5, abs=1e-5)


def test_alpha_follows_the_published_schedule() -> None:
    loss = Centroids(2, 2)
    for iteration, alpha in ((0, 0.25), (1000, 0.1625), (5000, 0.0290), (10_000, 0.00337), (20_000, 4.5e-5)):
        loss.iteration = torch.tensor(iteration)
        assert loss.alpha == pytest.approx(alpha, rel=0.01)


def test_a_shorter_run_may_have_a_faster_schedule() -> None:
    loss = Centroids(2, 2, every=30)
    loss.iteration = torch.tensor(150)
    assert loss.alpha == pytest.approx(0.0290, rel=0.01)


@pytest.mark.parametrize(("classes", "dim"), [(2, 2), (10, 2), (100, 2), (10, 16), (10, 1024), (17, 16)])
def test_centroids_start_as_far_apart_as_can_be(classes: int, dim: int) -> None:
    torch.manual_seed(0)
    c = separated_directions(classes, dim)
    assert torch.allclose(c.norm(dim=-1), torch.ones(classes), atol=1e-5)
    nearest = (c @ c.T).fill_diagonal_(-2).amax(1)
    best = math.cos(2 * math.pi / classes) if dim == 2 else -1 / (classes - 1)
    assert torch.allclose(nearest, torch.tensor(best), atol=2e-3)
    torch.manual_seed(1)
    assert not torch.allclose(separated_directions(classes, dim), c, atol=0.01)  # the seed decides which is where


def test_more_classes_than_a_simplex_has_corners_are_farther_apart_than_at_random() -> None:
    torch.manual_seed(0)
    c, random = separated_directions(200, 64), unit(200, 64, seed=0)
    assert (c @ c.T).fill_diagonal_(-2).max() < 0.3 * (random @ random.T).fill_diagonal_(-2).max()


def test_centroids_stay_where_they_were_spread() -> None:
    loss, e, labels = batch()
    before = loss.centroids.clone()
    loss(e, labels)
    assert torch.equal(loss.centroids, before)
    assert loss.iteration == 1


def test_a_picture_is_only_pulled_until_its_own_centroid_is_the_nearest() -> None:
    loss, e, labels = batch(dim=3)
    direction = loss.centroids[:1].repeat(len(labels), 1)
    together = VonMisesFisher(direction, e.concentration)  # where only class 0 is at home
    wanted = by_hand(together, labels, loss.centroids, pushed=range(1)) + likelihood(together, labels, loss.centroids)
    assert loss(together, labels).item() == pytest.approx(wanted, abs=2e-3)  # arc cosines near 1 are rough


@pytest.mark.parametrize(("share", "pushed"), [(0.49, range(1)), (0.51, range(0))])
def test_half_of_the_way_to_another_centroid_is_the_border(share: float, pushed: range) -> None:
    loss = Centroids(3, 3)
    angles = torch.tensor([0.0, 0.8, 2.5])
    loss.centroids = torch.stack([angles.cos(), angles.sin(), torch.zeros(3)], 1)
    angle = torch.tensor(share * 0.8)
    embedding = VonMisesFisher(torch.stack([angle.cos(), angle.sin(), torch.tensor(0.0)])[None], torch.ones(1))
    labels = torch.tensor([0])
    wanted = by_hand(embedding, labels, loss.centroids, pushed=pushed) + likelihood(embedding, labels, loss.centroids)
    assert loss(embedding, labels).item() == pytest.approx(wanted, abs=1e-4)


def test_as_published_centroids_move_towards_their_batch_and_absent_ones_stay() -> None:
    loss, e, labels = batch()
    loss.gate = "published"
    there = labels < 3
    before = loss.centroids.clone()
    loss(e[there], labels[there])
    for y in range(3):
        mean = F.normalize(e.direction[labels == y].mean(0), dim=-1)
        wanted = F.normalize(0.25 * mean + 0.75 * before[y], dim=-1)
        assert torch.allclose(loss.centroids[y], wanted, atol=1e-6)
        assert loss.centroids[y] @ mean > before[y] @ mean
    assert torch.allclose(loss.centroids[3], before[3], atol=1e-6)
    assert loss.iteration == 1


def test_centroids_stand_still_when_not_training() -> None:
    loss, e, labels = batch()
    loss.gate = "published"
    before = loss.centroids.clone()
    loss.eval()(e, labels)
    assert torch.equal(loss.centroids, before)
    assert loss.iteration == 0


def test_as_published_all_are_pushed_and_drawn_to_one_place() -> None:
    loss, e, labels = batch(dim=3)
    loss.gate = "published"
    before = loss.centroids.clone()
    together = VonMisesFisher(before[:1].repeat(len(labels), 1), e.concentration)
    wanted = by_hand(together, labels, before) + likelihood(together, labels, before)
    assert loss(together, labels).item() == pytest.approx(wanted, abs=2e-3)  # arc cosines near 1 are rough
    assert (loss.centroids[1:] @ before[0] > before[1:] @ before[0] + 1e-3).all()


def test_state_carries_the_centroids() -> None:
    loss, e, labels = batch()
    loss(e, labels)
    again = Centroids(4, 5)
    again.load_state_dict(loss.state_dict())
    assert torch.equal(again.centroids, loss.centroids)
    assert again.iteration == 1
    assert not list(loss.parameters())


def test_likelihood_trains_the_concentration_alone_and_ends_at_the_cosine() -> None:
    loss, e, labels = batch()
    direction, k = e.direction.clone().requires_grad_(), e.concentration.clone().requires_grad_()
    loss.eval()(VonMisesFisher(direction, k), labels).backward()
    assert torch.isfinite(direction.grad).all()
    cosine = (e.direction * loss.centroids[labels]).sum(-1)
    wanted = (mean_resultant(e.concentration, 5) - cosine) / len(labels)
    assert torch.allclose(k.grad, wanted, atol=1e-6)
    huge = VonMisesFisher(direction.detach().requires_grad_(), k.detach() * 1e6)
    loss(huge, labels).backward()
    assert torch.allclose(huge.direction.grad, direction.grad, atol=1e-6)


def test_gradients_are_finite_on_a_centroid_and_opposite_to_it() -> None:
    for kind in ("great-circle", "cosine", "euclidean"):
        loss = Centroids(2, 3, distance=kind)
        loss.centroids = torch.tensor([[1.0, 0, 0], [-1.0, 0, 0]])
        direction = loss.centroids.clone().requires_grad_()
        loss(VonMisesFisher(direction, torch.ones(2)), torch.tensor([0, 1])).backward()
        assert torch.isfinite(direction.grad).all()


@pytest.mark.parametrize("weight", [1, 5])
def test_cross_entropy_on_the_features_is_added(weight: float) -> None:
    loss, e, labels = batch()
    both = CentroidsAndClasses(loss, features=7, weight=weight).eval()
    features = unit(len(labels), 7, seed=3).requires_grad_()
    wanted = loss(e, labels) + weight * F.cross_entropy(both.classifier(features), labels)
    got = both(e, labels, features)
    assert torch.allclose(got, wanted)
    got.backward()
    assert features.grad.any()
    with pytest.raises(InputError, match="a positive number"):
        CentroidsAndClasses(loss, features=7, weight=0)


@pytest.mark.parametrize(
    ("embedding", "labels", "words"),
    [
        (Point(torch.eye(3)), [0, 1, 1], "vmf or the norm head"),
        (Gaussian(torch.eye(3), torch.ones(3, 1)), [0, 1, 1], "vmf or the norm head"),
        (VonMisesFisher(torch.eye(4)[:3], torch.ones(3)), [0, 1, 1], "dimension: expected 3"),
        (VonMisesFisher(torch.eye(3), torch.ones(3)), [0, 1, 2], "0 to 1"),
        (VonMisesFisher(torch.eye(3), torch.ones(3)), [0, 1], "whole numbers"),
        (VonMisesFisher(torch.eye(3), torch.ones(3)), [0.0, 1.0, 1.0], "whole numbers"),
        (VonMisesFisher(torch.eye(3)[:0], torch.ones(0)), [], "whole numbers"),
        (VonMisesFisher(torch.zeros(3, 3), torch.ones(3)), [0, 1, 1], "no direction"),
        (VonMisesFisher(torch.eye(3), torch.tensor([1.0, torch.nan, 1.0])), [0, 1, 1], "finite"),
        (VonMisesFisher(torch.eye(3), torch.tensor([1.0, torch.inf, 1.0])), [0, 1, 1], "finite"),
    ],
)
def test_what_it_cannot_use(embedding: Point, labels: list[int], words: str) -> None:
    loss = Centroids(2, 3)
    before = loss.centroids.clone()
    with pytest.raises(InputError, match=words):
        loss(embedding, torch.tensor(labels))
    assert torch.equal(loss.centroids, before)


def test_what_cannot_be_made() -> None:
    with pytest.raises(InputError, match="another class"):
        Centroids(1, 3)
    with pytest.raises(InputError, match="great-circle or cosine"):
        Centroids(2, 3, distance="slide")
    with pytest.raises(InputError, match="nearest or published"):
        Centroids(2, 3, gate="open")
    with pytest.raises(InputError, match="positive number of batches"):
        Centroids(2, 3, every=0)


# The classifier


def test_nearest_centroid_is_the_nearest_and_says_how_sure() -> None:
    loss, e, labels = batch()
    found = nearest_centroid(e, loss.centroids)
    assert torch.equal(found.rows, labels)
    draws = e.sample(20_000, torch.Generator().manual_seed(0))  # (S, N, D)
    wanted = (draws * loss.centroids[labels]).sum(-1).mean(0)
    assert torch.allclose(found.confidence, wanted, atol=0.02)
    with pytest.raises(InputError, match=r"\(K, 5\)"):
        nearest_centroid(e, loss.centroids[:, :4])


def test_confidence_falls_with_doubt_and_with_the_way_to_the_centroid() -> None:
    angle = torch.tensor([0.0, 0.3, 0.7, 0.7, 0.7])
    embedding = VonMisesFisher(torch.stack([angle.cos(), angle.sin()], 1), torch.tensor([9.0, 9.0, 9.0, 3.0, 0.0]))
    found = nearest_centroid(embedding, torch.eye(2))
    assert (found.confidence.diff() < 0).all()
    assert found.confidence[0] == mean_resultant(torch.tensor(9.0), 2)
    assert found.confidence[-1] == 0
    far = nearest_centroid(VonMisesFisher(-torch.ones(1, 2) / math.sqrt(2), torch.tensor([9.0])), torch.eye(2))
    assert far.confidence == 0


# On digits


@pytest.mark.parametrize("method", ["centroids", "centroids-ce"])
def test_learns_digits_and_doubts_unseen_ones(method: str) -> None:
    seen, _ = _split("digits:train")
    known, unknown = _split("digits:test")
    embedder = run_training(seen, recipe_for("digits").but(method=method, epochs=16, patience=16)).embedder
    labels = torch.tensor([int(label) for label in seen.labels])
    mean = embedder.encode(seen).mean
    centroids = F.normalize(torch.stack([mean[labels == label].sum(0) for label in range(8)]), dim=1)
    found, other = (
        nearest_centroid(embedder.encode(known), centroids),
        nearest_centroid(embedder.encode(unknown), centroids),
    )
    right = found.rows.numpy() == np.array([int(label) for label in known.labels])
    assert right.mean() > 0.9
    confidence = torch.cat([found.confidence, other.confidence]).numpy()
    assert auroc(np.arange(len(confidence)) < len(found.rows), confidence) > 0.85


def _split(source: str) -> list[ImageSet]:
    parts = hold_out_classes(load(source), {"8", "9"})
    return sorted(parts, key=lambda part: "8" in part.labels)
