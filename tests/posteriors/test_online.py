"""Laplace online: the moving average, the draw that is trained at, and the posterior that comes of it."""

import copy

import pytest
import torch
from torch import Tensor, nn

from howsure.data import InputSpec
from howsure.embedder import Embedder
from howsure.errors import InputError, TrainingError
from howsure.heads import PointHead
from howsure.losses import build_loss
from howsure.posteriors import laplace
from howsure.posteriors.laplace import PairGraph, online, pair_curvature
from howsure.posteriors.laplace.last_layer import LastLayerLaplace
from posteriors.closeness import assert_close

SPEC = InputSpec(8, 8, 1, (0.0,), (1.0,))
LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])
FEATURES, DIM, PICTURES = 6, 3, 50


def sequence(count: int, *, rows: int = 4, features: int = 5) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(rows, features, generator=generator, dtype=torch.float64) for _ in range(count)]


def batches(count: int) -> list[Tensor]:
    """Features of which one is dead, so that the rank that is kept is all there is."""
    generator = torch.Generator().manual_seed(4)
    dead = torch.tensor([1.0] * (FEATURES - 1) + [0.0])
    return [torch.rand(len(LABELS), FEATURES, generator=generator) * dead for _ in range(count)]


def learning(scale: float = 1.0) -> tuple[LastLayerLaplace, online.AtADraw]:
    """A head and its loss, in float64; all weights times `scale`."""
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(64, FEATURES))
    head = online.prepared(Embedder(backbone, PointHead(FEATURES, DIM), SPEC, dim=DIM), held_out=2).head
    assert isinstance(head, LastLayerLaplace)
    with torch.no_grad():
        for weight in head.head.parameters():
            weight *= scale
    loss = online.AtADraw(build_loss("contrastive"), head, pictures=PICTURES, temperature=2.0)
    return head.double(), loss.double()


def after(count: int, scale: float = 1.0) -> tuple[LastLayerLaplace, online.AtADraw]:
    head, loss = learning(scale)
    torch.manual_seed(1)
    for features in batches(count):
        loss(head(features.double()), LABELS, features.double())
    return head, loss


def test_the_average_is_the_sum_it_stands_for() -> None:
    blocks, memory = sequence(7), 0.8
    average = online.Average(5, rank=5, memory=memory).double()
    for block in blocks:
        average.add(block, centre=block.mean(0))
    past = [(1 - memory) * memory ** (len(blocks) - 1 - s) for s in range(len(blocks))]
    direct = sum(share * block.T @ block for share, block in zip(past, blocks, strict=True))
    assert isinstance(direct, Tensor)
    assert_close(average.rows.T @ average.rows, direct)
    axes, values = average.leading()
    assert_close((axes.T * values) @ axes, direct / sum(past))
    assert_close(axes @ axes.T, torch.eye(5, dtype=torch.float64))
    centre = sum(share * block.mean(0) for share, block in zip(past, blocks, strict=True))
    assert_close(average.centre_now(), torch.as_tensor(centre) / sum(past))


def test_it_does_not_remember_that_it_began_at_zero() -> None:
    block = sequence(1)[0]
    average = online.Average(5, rank=5).double()
    for _ in range(4):
        average.add(block, centre=block[0])
        axes, values = average.leading()
        assert_close((axes.T * values) @ axes, block.T @ block)
        assert_close(average.centre_now(), block[0])


def test_what_is_left_out_is_never_made_up() -> None:
    blocks = sequence(20, rows=6, features=12)
    whole, part = (online.Average(12, rank=rank, memory=0.9).double() for rank in (12, 4))
    for block in blocks:
        whole.add(block, centre=block[0])
        part.add(block, centre=block[0])
    rest = torch.linalg.eigvalsh(whole.rows.T @ whole.rows - part.rows.T @ part.rows)
    assert rest.min() > -1e-9
    assert rest.max() > 0.01


def test_rows_of_classes_are_a_root_of_all_their_pairs() -> None:
    features = batches(1)[0].double()
    rows, count = online.positive_rows(features, LABELS)
    curvature = pair_curvature(features, PairGraph.from_labels(LABELS), variant="pos", geometry="free")
    assert_close(rows.T @ rows, features.T @ curvature.shared() @ features)
    assert count == curvature.count == 3 + 1 + 6


def test_the_gradient_is_that_of_a_head_drawn_by_hand() -> None:
    head, loss = after(3)
    features = batches(1)[0].double().requires_grad_()
    by_hand, plain = copy.deepcopy(head.head), build_loss("contrastive")
    torch.manual_seed(7)
    moved = head.weights.deviations(1, DIM, torch.default_generator)[0]
    assert moved.abs().min() > 1e-3
    with torch.no_grad():
        by_hand.location.weight += moved
        by_hand.location.bias -= moved @ head.weights.centre
    expected = torch.autograd.grad(plain(by_hand(features), LABELS), [features, *by_hand.parameters()])
    torch.manual_seed(7)
    value = loss(head(features), LABELS, features)
    for found, wanted in zip(torch.autograd.grad(value, [features, *head.head.parameters()]), expected, strict=True):
        assert_close(found, wanted)
    assert not torch.allclose(value, plain(head.head(features), LABELS))


def test_the_first_batch_is_seen_by_the_weights_themselves() -> None:
    head, loss = learning()
    features = batches(1)[0].double()
    assert_close(loss(head(features), LABELS, features), build_loss("contrastive")(head.head(features), LABELS))
    assert (head.weights.variance(features) > 0).all()


def test_the_posterior_is_that_of_the_average() -> None:
    """After the first two batches, by inverting the whole matrix."""
    head, loss = after(2)
    first, second = (batch.double() for batch in batches(2))
    before, _ = after(1)
    moved = before.weights.deviations(1, DIM, torch.default_generator)[0]  # the draw of the second batch
    linear, memory = head.head.location, online.MEMORY

    def curvature(features: Tensor, z: Tensor) -> Tensor:
        pairs = PairGraph.from_labels(LABELS)
        mean = features.T @ pairs.laplacian("pos") @ features / pairs.count("pos")
        return PICTURES / 2.0 * mean / z.square().mean()

    z = linear(second) + (second - before.weights.centre) @ moved.T
    both = memory * curvature(first, linear(first)) + curvature(second, z)
    prior = 1 / linear.weight.square().mean()
    covariance = torch.linalg.inv(both / (1 + memory) + prior * torch.eye(FEATURES, dtype=torch.float64))
    gap = torch.rand(5, FEATURES, dtype=torch.float64)
    centre = (memory * first.mean(0) + second.mean(0)) / (1 + memory)
    expected = torch.einsum("nj,jk,nk->n", gap, covariance, gap)
    assert_close(head.weights.variance(gap + centre)[:, 0], expected)
    assert int(loss.average.steps) == 2


@pytest.mark.parametrize("scale", [1e-3, 30.0])
def test_the_noise_follows_the_scale_of_the_weights(scale: float) -> None:
    features = batches(1)[0].double()
    (plain, _), (scaled, _) = after(4), after(4, scale)
    assert_close(scaled.weights.variance(features) / scale**2, plain.weights.variance(features))


def test_the_loss_owns_the_average_and_no_weight_of_the_embedder() -> None:
    head, loss = after(1)
    assert not list(loss.parameters())
    assert set(loss.state_dict()) == {"average.rows", "average.centre", "average.steps"}
    assert {name.partition(".")[0] for name in head.state_dict()} == {"head", "weights", "usual"}


def test_a_batch_without_pairs_says_nothing() -> None:
    head, _ = learning()
    loss = online.AtADraw(_Length(), head, pictures=PICTURES).double()
    features = batches(1)[0].double()
    loss(head(features), torch.arange(len(features)), features)
    assert int(loss.average.steps) == 0
    assert not loss.average.rows.any()


class _Length(nn.Module):
    """A loss that needs no pairs."""

    def forward(self, embedding: object, labels: Tensor) -> Tensor:
        return torch.zeros(())


def test_novelty_is_that_of_the_same_pictures_afterwards() -> None:
    torch.manual_seed(0)
    embedder = online.prepared(Embedder("mlp", "point", SPEC, dim=DIM), held_out=9)
    loss = online.AtADraw(build_loss("contrastive"), embedder.head, pictures=PICTURES)  # type: ignore[arg-type]
    pixels = torch.randint(0, 256, (9, 1, 8, 8), dtype=torch.uint8)
    features = embedder.backbone(SPEC.normalise(pixels))
    loss(embedder.head(features), LABELS, features)
    online.settle_novelty(embedder, pixels)
    expected = laplace.with_novelty(embedder, [(SPEC.normalise(pixels), LABELS)]).head.usual
    assert torch.equal(embedder.head.usual, expected)
    assert embedder.head.usual.std() > 0


def test_infinite_curvature_is_no_news() -> None:
    average = online.Average(5)
    with pytest.raises(TrainingError, match="finite"):
        average.add(torch.full((2, 5), 1e30), centre=torch.zeros(5))
    assert int(average.steps) == 0
    assert not average.rows.any()


def test_mistakes() -> None:
    with pytest.raises(InputError, match="memory"):
        online.Average(5, memory=1.0)
    with pytest.raises(InputError, match="temperature"):
        online.AtADraw(_Length(), learning()[0], pictures=5, temperature=0.0)
    with pytest.raises(InputError, match="with a posterior"):
        online.settle_novelty(Embedder("mlp", "point", SPEC, dim=3), torch.zeros(1, 1, 8, 8))
