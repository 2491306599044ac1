"""Closed forms against samples of the weights, run through the head itself."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from howsure.embeddings import Draws, Embedding, Gaussian, Point
from howsure.errors import InputError
from howsure.heads import build_head
from howsure.posteriors.laplace.covariance import DiagonalWeights, SharedWeights, WeightPosterior
from howsure.posteriors.laplace.last_layer import LastLayerLaplace
from posteriors.closeness import assert_close

M, D, N = 7, 3, 5


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


FEATURES, CENTRE = normal(N, M, seed=0), 0.3 * normal(M, seed=1)
AXES = torch.linalg.qr(normal(M, M, seed=2))[0].T.contiguous()
ACROSS = 1 / torch.tensor(2e4)


def shared(rank: int) -> SharedWeights:
    along = 1e-5 * torch.rand(rank, generator=torch.Generator().manual_seed(3))
    return SharedWeights(CENTRE, axes=AXES[:rank], along=along, across=ACROSS)


def diagonal() -> DiagonalWeights:
    return DiagonalWeights(CENTRE, variances=1e-5 * normal(D, M, seed=4).square())


WEIGHTS = {"full": lambda: shared(M), "low rank": lambda: shared(3), "diagonal": diagonal}


def covariance(weights: WeightPosterior) -> Tensor:
    """(D·M, D·M), written out."""
    if isinstance(weights, SharedWeights):
        inside = weights.axes.T @ weights.axes
        block = weights.axes.T @ torch.diag(weights.along) @ weights.axes + weights.across * (torch.eye(M) - inside)
        return torch.block_diag(*[block.double()] * D)
    return torch.diag(weights.spread.flatten().double())


@pytest.fixture(params=WEIGHTS)
def weights(request: pytest.FixtureRequest) -> WeightPosterior:
    return WEIGHTS[request.param]()


def test_variance_of_z_is_the_quadratic_form(weights: WeightPosterior) -> None:
    gap = torch.einsum("nm,ij->nijm", FEATURES - CENTRE, torch.eye(D)).reshape(N, D, D * M).double()
    exact = torch.einsum("nip,pq,niq->ni", gap, covariance(weights), gap)
    assert_close(weights.variance(FEATURES).expand(-1, D).double(), exact, rtol=1e-4, atol=1e-9)


def test_deviations_have_that_covariance(weights: WeightPosterior) -> None:
    drawn = weights.deviations(60_000, D, torch.Generator().manual_seed(5)).flatten(1).double()
    exact = covariance(weights)
    assert (drawn.T @ drawn / len(drawn) - exact).norm() < 0.03 * exact.norm()
    assert drawn.mean(0).norm() < 0.02 * exact.trace().sqrt()


def sampled(head: nn.Module, weights: WeightPosterior, count: int) -> Tensor:
    """(S, N, D) points: the weights are changed, and the head asked again, one draw at a time."""
    head = copy.deepcopy(head)
    weight, bias = head.location.weight.detach().clone(), head.location.bias.detach().clone()
    points = []
    for moved in weights.deviations(count, D, torch.Generator().manual_seed(6)):
        head.location.weight.data = weight + moved
        head.location.bias.data = bias - moved @ weights.centre  # differences from z at the centre
        points.append(head(FEATURES).mean.detach())
    return torch.stack(points)


@pytest.mark.parametrize("name", ["point", "free-point"])
def test_embeddings_are_those_of_sampled_heads(name: str, weights: WeightPosterior) -> None:
    torch.manual_seed(0)
    head = build_head(name, M, D)
    head.location.weight.data *= 3  # far from the origin, so that the first order is enough
    embedding = LastLayerLaplace(head, weights, layer="location", normalised=name == "point")(FEATURES)
    assert isinstance(embedding, Gaussian)
    assert torch.equal(embedding.mean, head(FEATURES).mean)
    variance = sampled(head, weights, 4000).var(0)
    assert_close(embedding.uncertainty, variance.sum(-1), rtol=0.12, atol=0)
    if embedding.scale.shape[-1] == D:
        assert_close(embedding.variance, variance, rtol=0.25, atol=2e-6)


@pytest.mark.parametrize("name", ["point", "free-point"])
def test_draws_are_joint_and_repeatable(name: str, weights: WeightPosterior) -> None:
    head = build_head(name, M, D)
    one = LastLayerLaplace(head, weights, layer="location", normalised=name == "point", draws=20, seed=6)
    embedding = one(FEATURES)
    assert isinstance(embedding, Draws)
    expected = sampled(head, weights, 20).transpose(0, 1)
    assert_close(embedding.atoms.mean, expected, rtol=1e-4, atol=1e-5)
    assert_close(one(FEATURES[2:]).atoms.mean, expected[2:], rtol=1e-4, atol=1e-5)  # the same networks
    other = LastLayerLaplace(head, weights, layer="location", normalised=name == "point", draws=20, seed=7)
    assert not torch.allclose(other(FEATURES).atoms.mean, expected, atol=1e-3)


@pytest.mark.parametrize(("name", "normalised"), [("gaussian", True), ("hedged", False)])
def test_what_the_head_says_about_the_picture_is_added(name: str, normalised: bool, weights: WeightPosterior) -> None:
    head = build_head(name, M, D)
    alone = build_head("point" if normalised else "free-point", M, D)
    alone.location = head.location
    epistemic = LastLayerLaplace(alone, weights, layer="location", normalised=normalised)(FEATURES)
    both = LastLayerLaplace(head, weights, layer="location", normalised=normalised)(FEATURES)
    assert_close(both.variance, head(FEATURES).variance + epistemic.variance)
    drawn = LastLayerLaplace(head, weights, layer="location", normalised=normalised, draws=4)(FEATURES)
    assert_close(drawn.aleatoric, head(FEATURES).variance)


def test_raw_variance_does_not_know_the_sphere(weights: WeightPosterior) -> None:
    head = LastLayerLaplace(build_head("point", M, D), weights, layer="location", normalised=True)
    free = LastLayerLaplace(build_head("free-point", M, D), weights, layer="location", normalised=False)
    assert_close(head.raw_variance(FEATURES), free(FEATURES).uncertainty)
    far = weights.centre + 10 * (FEATURES - weights.centre)
    assert_close(head.raw_variance(far), 100 * head.raw_variance(FEATURES))


def test_with_and_without_the_remainder_are_one_variance() -> None:
    features = normal(N, M, seed=9)
    wide, narrow = torch.tensor(2.0), torch.tensor(2.0 / 0.9e4)
    found = [
        SharedWeights(CENTRE, axes=AXES[:3], along=torch.full((3,), least), across=wide).variance(features)
        for least in (narrow / 1.3, narrow)
    ]
    parts = (features - CENTRE) @ AXES.T
    assert_close(found[0], 2 * parts[:, 3:].square().sum(1, keepdim=True), rtol=1e-3)
    assert_close(found[1], found[0], rtol=1e-3)


def test_features_near_the_span_keep_their_digits() -> None:
    """1e-4 of the length outside a span that is known a million times better."""
    along, across = torch.full((3,), 1e-6), torch.tensor(1e3)
    weights = SharedWeights(torch.zeros(M), axes=AXES[:3], along=along, across=across)
    features = AXES[:1] + 1e-4 * AXES[5:6]
    assert weights.variance(features).item() == pytest.approx(1e-8 * 1e3 + 1e-6, rel=1e-2)


def test_description_and_state_rebuild_it(weights: WeightPosterior) -> None:
    one = LastLayerLaplace(build_head("point", M, D), weights, layer="location", normalised=True, draws=3, seed=9)
    again = LastLayerLaplace.around(build_head("point", M, D), one.describe())
    again.load_state_dict(one.state_dict())
    assert torch.equal(again(FEATURES).atoms.mean, one(FEATURES).atoms.mean)


class Deep(nn.Module):
    """A head of someone's own, with other layers around the last."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.Sequential(nn.Linear(4, M), nn.ReLU(inplace=True), nn.Linear(M, D))

    def forward(self, features: Tensor) -> Embedding:
        return Point(normalize(self.stack(features), dim=-1))


def test_any_linear_layer_of_any_head_will_do() -> None:
    head, features = Deep(), normal(N, 4, seed=8)
    embedding = LastLayerLaplace(head, shared(3), layer="stack.2", normalised=True)(features)
    inputs = head.stack[1](head.stack[0](features))
    z = head.stack[2](inputs)
    expected = shared(3).variance(inputs)[:, 0] * (D - 1) / z.square().sum(-1)
    assert_close(embedding.uncertainty, expected)


def test_no_linear_layer_of_that_name() -> None:
    with pytest.raises(InputError, match=r"stack\.0, stack\.2"):
        LastLayerLaplace(Deep(), shared(3), layer="stack.1", normalised=True)
    with pytest.raises(InputError, match="it has none"):
        LastLayerLaplace(nn.Identity(), shared(3), layer="location", normalised=True)


class Dropping(nn.Module):
    """A head whose layer does not read the features themselves while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.location = nn.Dropout(0.5), nn.Linear(M, D)

    def forward(self, features: Tensor) -> Point:
        return Point(self.location(self.drop(features)))


def test_what_goes_into_the_layer_is_seen_again_when_training_begins() -> None:
    head = LastLayerLaplace(Dropping(), shared(3), layer="location", normalised=False).eval()
    first, second = head(FEATURES), head(FEATURES)
    assert torch.equal(first.mean, second.mean)
    assert torch.equal(first.variance, second.variance)
    torch.manual_seed(0)
    dropped = head.train()(FEATURES)
    assert not torch.allclose(dropped.variance, first.variance)
    assert torch.equal(head.eval()(FEATURES).variance, first.variance)


def looked_at(name: str, weights: WeightPosterior, **more: int) -> LastLayerLaplace:
    """In use: it has seen pictures before, so it takes its shortest ways."""
    torch.manual_seed(0)
    one = LastLayerLaplace(build_head(name, M, D), weights, layer="location", normalised=name != "free-point", **more)
    with torch.no_grad():
        one.eval()(FEATURES)
    return one


@pytest.mark.parametrize("name", ["point", "free-point", "gaussian"])
def test_a_head_seen_before_says_the_same(name: str, weights: WeightPosterior) -> None:
    used = looked_at(name, weights)
    fresh = used.again().eval()
    with torch.no_grad():
        first, second = fresh(FEATURES), used(FEATURES)
    assert torch.equal(second.mean, used.head(FEATURES).mean)
    assert_close(second.variance, first.variance, rtol=1e-6)
    assert_close(used.raw_variance(FEATURES), used.again().eval().raw_variance(FEATURES), rtol=1e-6)


@pytest.mark.parametrize("name", ["point", "free-point", "gaussian"])
def test_draws_around_an_estimate_are_those_beside_it(name: str, weights: WeightPosterior) -> None:
    used = looked_at(name, weights, draws=20, seed=6)
    expected = sampled(used.head, weights, 20).transpose(0, 1)
    with torch.no_grad():
        assert_close(used(FEATURES).atoms.mean, expected, rtol=1e-4, atol=1e-5)
    assert_close(used(FEATURES).atoms.mean.detach(), expected, rtol=1e-4, atol=1e-5)  # with a graph
    assert used(FEATURES).atoms.variance.any().item() == (name == "gaussian")


def test_draws_follow_what_is_loaded(weights: WeightPosterior) -> None:
    used, other = looked_at("point", weights, draws=5), looked_at("point", copy.deepcopy(weights), draws=5)
    with torch.no_grad():
        other.head.location.weight.mul_(-2)
        for buffer in other.weights.buffers():
            buffer.mul_(1.5)
        used.load_state_dict(other.state_dict())
        expected = sampled(other.head, other.weights, 5).transpose(0, 1)
        again = LastLayerLaplace(other.head, other.weights, layer="location", normalised=True, draws=5, seed=6)
        assert_close(again(FEATURES).atoms.mean, expected, rtol=1e-4, atol=1e-5)
        assert torch.equal(used(FEATURES).atoms.mean, other(FEATURES).atoms.mean)
        assert_close(used(FEATURES).atoms.mean, used.again().eval()(FEATURES).atoms.mean, rtol=1e-4, atol=1e-5)


def test_a_gradient_reaches_the_estimate_through_draws(weights: WeightPosterior) -> None:
    used = looked_at("point", weights, draws=5)
    used(FEATURES).atoms.mean[..., 0].sum().backward()
    assert used.head.location.weight.grad.abs().sum() > 0


def test_a_hook_sees_the_head_at_work(weights: WeightPosterior) -> None:
    for more in ({}, {"draws": 5}):
        used, seen = looked_at("point", weights, **more), []
        hook = used.single.register_forward_pre_hook(lambda module, args, seen=seen: seen.append(args[0]))
        with torch.no_grad():
            used(FEATURES)
        hook.remove()
        assert seen == [FEATURES]


class Brief(nn.Module):
    """An external head that moves the means of pictures with little evidence."""

    def __init__(self) -> None:
        super().__init__()
        self.location = nn.Linear(M, D)

    def forward(self, features: Tensor) -> Point:
        z = self.location(features)
        return Point(z / (z.norm(dim=-1, keepdim=True) + 1e-3))


def test_a_head_that_does_more_than_its_layer_is_asked_every_time() -> None:
    torch.manual_seed(0)
    head = LastLayerLaplace(Brief(), shared(3), layer="location", normalised=True).eval()
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(head(FEATURES).mean, head.head(FEATURES).mean)
