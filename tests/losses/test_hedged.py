import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal, kl_divergence
from torch.nn import functional as F

from cases import isotropic, mixture
from howsure.embeddings import Embedding, Gaussian, GaussianMixture, Point
from howsure.errors import InputError
from howsure.losses.hedged import (
    EVALUATIONS,
    OBJECTIVES,
    Hedged,
    LearnedLink,
    SoftContrastive,
    balanced_pairs,
    component_samples,
    divergence,
)

LABELS = torch.arange(3).repeat_interleave(4)


def random_points(dim: int = 2, *, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(3, dim, generator=rng)[LABELS] + 0.4 * torch.randn(len(LABELS), dim, generator=rng)


def gaussian(dim: int = 2) -> Gaussian:
    return Gaussian(random_points(dim), torch.linspace(0.1, 0.6, len(LABELS) * dim).view(-1, dim))


def two_modes(dim: int = 2) -> GaussianMixture:
    location = torch.stack([random_points(dim), random_points(dim, seed=1)], 1)
    return GaussianMixture(torch.zeros(len(LABELS), 2), location, torch.full((len(LABELS), 2, 1), 0.3))


BELIEFS = pytest.mark.parametrize("make", [gaussian, two_modes])
EVERY_WAY = pytest.mark.parametrize(
    ("objective", "evaluation"), [(how, by) for how in OBJECTIVES for by in EVALUATIONS]
)


# The link and soft contrastive


def test_the_link_starts_where_it_is_told_and_falls_with_distance() -> None:
    for scale in (0.01, 5.0, 200.0):
        link = LearnedLink(scale=scale, offset=2.0)
        assert link.scale.item() == pytest.approx(scale, rel=1e-4)
    distance = torch.linspace(0, 4, 9)
    assert (link.log_odds(distance).diff() < 0).all()
    matcher = link.matcher()
    assert torch.allclose(matcher.log_odds(distance), link.log_odds(distance))
    assert matcher.base_rate == 0.5
    with pytest.raises(InputError, match="positive"):
        LearnedLink(scale=0.0, offset=1.0)


def test_soft_contrastive_is_cross_entropy_with_equal_weight_for_both_kinds() -> None:
    points = random_points()
    costs: dict[bool, list[float]] = {True: [], False: []}
    for i in range(len(points)):
        for j in range(i):
            p = 1 / (1 + math.exp(3 * math.dist(points[i], points[j]) - 4))
            same = bool(LABELS[i] == LABELS[j])
            costs[same].append(-math.log(p if same else 1 - p))
    wanted = sum(sum(kind) / len(kind) for kind in costs.values()) / 2
    assert SoftContrastive(scale=3.0, offset=4.0)(Point(points), LABELS).item() == pytest.approx(wanted, rel=1e-4)


def test_pairs_are_at_most_so_many_of_each_kind() -> None:
    first, second, same = balanced_pairs(LABELS, most=5)
    assert len(first) == 10
    assert int(same.sum()) == 5
    assert torch.equal(LABELS[first] == LABELS[second], same)
    assert (first != second).all()
    everything = balanced_pairs(LABELS, most=10_000)
    assert len({(a, b) for a, b in zip(*(t.tolist() for t in everything[:2]), strict=True)}) == 12 * 11 // 2


def test_other_pairs_every_time() -> None:
    torch.manual_seed(0)
    drawn = {tuple(balanced_pairs(LABELS, most=3)[0].tolist()) for _ in range(10)}
    assert len(drawn) > 5


# Hedged


def brute_force(e: Embedding, *, scale: float, offset: float, objective: str) -> float:
    """Many plain samples of both items of each pair."""
    n = 4_000
    a, b = (e.sample(n, torch.Generator().manual_seed(seed)).double() for seed in (0, 1))
    costs: dict[bool, list[Tensor]] = {True: [], False: []}
    for i in range(len(e)):
        for j in range(i):
            same = bool(LABELS[i] == LABELS[j])
            log_odds = (offset - scale * (a[:, i] - b[:, j]).norm(dim=-1)) * (1 if same else -1)
            values = F.logsigmoid(log_odds)
            costs[same].append(values.mean() if objective == "elbo" else values.exp().mean().log())
    return -sum(torch.stack(kind).mean().item() for kind in costs.values()) / 2


@EVERY_WAY
@BELIEFS
@pytest.mark.parametrize("dim", [2, 3, 5])
def test_hedged_against_brute_force(make, dim: int, objective: str, evaluation: str) -> None:
    torch.manual_seed(0)
    e = make(dim)
    wanted = brute_force(e, scale=2.0, offset=3.0, objective=objective)
    loss = Hedged(scale=2.0, offset=3.0, weight=0.0, objective=objective, evaluation=evaluation, samples=256)
    assert loss(e, LABELS).item() == pytest.approx(wanted, rel=0.06)


def test_quadrature_is_the_same_every_time_and_samples_are_not() -> None:
    for evaluation, constant in (("quadrature", True), ("samples", False)):
        loss = Hedged(evaluation=evaluation, pairs=1_000)
        values = [loss(gaussian(), LABELS).item() for _ in range(2)]
        assert (values[0] == pytest.approx(values[1], rel=1e-6)) == constant


def test_marginal_is_the_tighter_bound() -> None:
    elbo, marginal = (Hedged(objective=how, weight=0.0)(gaussian(), LABELS) for how in OBJECTIVES)
    assert marginal < elbo


def test_sure_embeddings_are_the_soft_contrastive_loss() -> None:
    sure = Gaussian(random_points(), torch.full((len(LABELS), 2), 1e-5))
    wanted = SoftContrastive(offset=5.0)(Point(random_points()), LABELS).item()
    for objective in OBJECTIVES:
        assert Hedged(weight=0.0, objective=objective)(sure, LABELS).item() == pytest.approx(wanted, rel=1e-4)


def test_loss_falls_when_classes_part() -> None:
    e = gaussian()
    apart = Gaussian(3 * F.one_hot(LABELS, 3)[:, :2].float(), e.scale)
    assert Hedged()(apart, LABELS) < Hedged()(e, LABELS)


def test_a_picture_between_two_classes_becomes_unsure() -> None:
    """Marginal likelihood: a wide embedding pays where single points are often wrong."""
    points = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0], [0.4, 1.6]])
    labels = torch.tensor([0, 0, 1, 1, 0])
    scale = torch.full((5, 1), 0.3, requires_grad=True)
    Hedged(weight=0.0, objective="marginal")(Gaussian(points, scale.expand(5, 2)), labels).backward()
    assert scale.grad is not None
    assert scale.grad[4] < 0
    assert scale.grad[4] < scale.grad[:4].min()


@EVERY_WAY
@BELIEFS
@pytest.mark.parametrize("dim", [2, 5])
def test_gradients_are_finite_even_for_equal_pictures(make, dim: int, objective: str, evaluation: str) -> None:
    e = make(dim)
    twin = e.map(lambda t: torch.cat([t[:1], t[:1], t[2:]]).requires_grad_())
    loss = Hedged(objective=objective, evaluation=evaluation)
    loss(twin, LABELS).backward()
    for name, tensor in [*twin.tensors().items(), *loss.named_parameters()]:
        assert tensor.grad is not None, name
        assert torch.isfinite(tensor.grad).all(), name
        assert tensor.grad.any(), name


# The pull


def test_divergence_of_one_gaussian_is_torchs() -> None:
    e = isotropic()
    theirs = kl_divergence(
        Independent(Normal(e.location, e.scale.expand_as(e.location)), 1),
        Independent(Normal(torch.zeros_like(e.location), 1.0), 1),
    )
    assert torch.allclose(divergence(e, samples=8), theirs)


def test_divergence_of_a_mixture_against_torch() -> None:
    torch.manual_seed(0)
    e = mixture()
    theirs = MixtureSameFamily(Categorical(logits=e.logits), Independent(Normal(e.location, e.scale), 1))
    z = theirs.sample((40_000,))
    wanted = (theirs.log_prob(z) - Independent(Normal(torch.zeros_like(z[0]), 1.0), 1).log_prob(z)).mean(0)
    assert torch.allclose(divergence(e, samples=40_000), wanted, atol=0.05)


def test_divergence_grows_with_length_and_with_sureness() -> None:
    near, far = (Gaussian(torch.full((1, 2), at), torch.ones(1, 1)) for at in (0.0, 2.0))
    sure = Gaussian(torch.zeros(1, 2), torch.full((1, 1), 0.01))
    assert divergence(near, samples=1) == 0
    assert divergence(near, samples=1) < divergence(far, samples=1)
    assert divergence(near, samples=1) < divergence(sure, samples=1)


def test_the_pull_has_its_weight() -> None:
    e = gaussian()
    free, pulled = (Hedged(weight=weight)(e, LABELS) for weight in (0.0, 0.1))
    assert (pulled - free).item() == pytest.approx(0.2 * divergence(e, samples=1).mean().item(), rel=1e-4)


def test_samples_of_components_carry_the_moments() -> None:
    torch.manual_seed(0)
    e = mixture()
    z, shares = component_samples(e, 40_000)
    weights = shares.exp()[..., None]
    assert torch.allclose(weights.sum(1), torch.ones_like(weights[:, 0]))
    assert torch.allclose((weights * z).sum(1), e.mean, atol=0.05)


# Bad input


@pytest.mark.parametrize("loss", [SoftContrastive(), Hedged(), Hedged(evaluation="samples")])
def test_bad_batches(loss: torch.nn.Module) -> None:
    e = gaussian()
    for labels in (torch.zeros(12), torch.arange(12), torch.zeros(1)):
        with pytest.raises(InputError, match="class-balanced"):
            loss(e[: len(labels)], labels)
    hurt = e.location.clone()
    hurt[3, 0] = torch.nan
    with pytest.raises(InputError, match="first item 3"):
        loss(Gaussian(hurt, e.scale), LABELS)


def test_points_cannot_hedge() -> None:
    with pytest.raises(InputError, match="hedged head"):
        Hedged()(Point(random_points()), LABELS)


@pytest.mark.parametrize(
    "options", [{"objective": "vib"}, {"evaluation": "guess"}, {"samples": 0}, {"scale": -1.0}], ids=str
)
def test_impossible_options(options) -> None:
    with pytest.raises(InputError):
        Hedged(**options)
    with pytest.raises(InputError, match="multiple of 2"):
        Hedged(samples=7)(two_modes(), LABELS)
    with pytest.raises(InputError, match="each kind"):
        SoftContrastive(pairs=0)(gaussian(), LABELS)
