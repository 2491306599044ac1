"""Posteriors of whole networks: the tangent against the exact linearisation, draws, and what a fit keeps."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from howsure.data import InputSpec
from howsure.embedder import Embedder
from howsure.embeddings import Draws, Gaussian, NovelGaussian
from howsure.errors import InputError
from howsure.heads import FreePointHead, PointHead
from howsure.posteriors import laplace
from howsure.posteriors.laplace.base import Subject
from howsure.posteriors.laplace.covariance import (
    COVARIANCES,
    DiagonalCovariance,
    KroneckerCovariance,
    ParameterCovariance,
)
from howsure.posteriors.laplace.curvature import Curvature, Geometry, pair_curvature
from howsure.posteriors.laplace.network import gather_network
from howsure.posteriors.laplace.network_curvature import Diagonal, Kronecker, gradients
from howsure.posteriors.laplace.pairs import PairGraph
from howsure.posteriors.laplace.tangent import RULES, TangentRecorder
from laws import same
from posteriors.closeness import assert_close

SPEC = InputSpec(6, 6, 1, (0.0,), (1.0,))
STRUCTURES = ["diagonal", "kronecker"]


def orthogonal(size: int) -> Tensor:
    return torch.linalg.qr(torch.randn(size, size)).Q


def covariance_of(kind: str, parameter: Tensor, *, size: float) -> ParameterCovariance:
    if kind == "diagonal" or parameter.ndim == 1:
        return DiagonalCovariance(size**2 * (0.5 + torch.rand_like(parameter.detach())))
    rows, columns = len(parameter), parameter[0].numel()
    along = size**2 * (0.1 + torch.rand(rows, columns))
    return KroneckerCovariance(along, outer=orthogonal(rows), inner=orthogonal(columns), shape=parameter.shape)


def linearised(network: nn.Module, x: Tensor, covariances: dict[str, ParameterCovariance]) -> Tensor:
    """The variance of the outputs (N, D) where the network is replaced by its tangent, by brute force."""
    named = dict(network.named_parameters())
    out = network(x)
    rows = [torch.autograd.grad(value, list(named.values()), retain_graph=True) for value in out.flatten()]
    parts = [[squared(covariances[name], slope) for name, slope in zip(named, row, strict=True)] for row in rows]
    return torch.tensor([sum(part) for part in parts]).view_as(out)


def squared(covariance: ParameterCovariance, slope: Tensor) -> float:
    """slope^T Cov slope."""
    if isinstance(covariance, KroneckerCovariance):
        return float(((covariance.outer.T @ slope.flatten(1) @ covariance.inner).square() * covariance.along).sum())
    return float((slope.square() * variance_of(covariance)).sum())


def variance_of(covariance: ParameterCovariance) -> Tensor:
    """Of each weight alone, like the parameter."""
    if isinstance(covariance, KroneckerCovariance):
        variance = covariance.outer.square() @ covariance.along @ covariance.inner.T.square()
        return variance.view(covariance.shape)
    return covariance.along


def tangent(network: nn.Module, x: Tensor, covariances: dict[str, ParameterCovariance]) -> tuple[Tensor, Tensor]:
    with TangentRecorder({id(p): covariances[name] for name, p in network.named_parameters()}) as recorder:
        out = network(x.requires_grad_()).flatten(1)
    return out.detach(), recorder.variance(out)


@pytest.mark.parametrize("kind", list(COVARIANCES))
def test_one_layer_against_its_covariance(kind: str) -> None:
    torch.manual_seed(0)
    for layer, x in ((nn.Linear(3, 4), torch.randn(2, 3)), (nn.Conv2d(2, 3, 3, padding=1), torch.randn(2, 2, 4, 4))):
        covariances = {name: covariance_of(kind, p, size=0.5) for name, p in layer.named_parameters()}
        _, variance = tangent(layer, x, covariances)
        columns = layer.weight.numel()
        basis = torch.eye(columns).view(columns, *layer.weight.shape)
        response = torch.stack([functional_call(layer, {"weight": w, "bias": 0 * layer.bias}, x) for w in basis])
        weight = covariances["weight"]
        if isinstance(weight, KroneckerCovariance):
            axes = torch.kron(weight.outer, weight.inner)
            covariance = axes @ torch.diag(weight.along.flatten()) @ axes.T
        else:
            covariance = torch.diag(variance_of(weight).flatten())
        bias = variance_of(covariances["bias"]).view(-1, *[1] * (x.ndim - 2))
        expected = torch.einsum("a...,ab,b...->...", response, covariance, response) + bias
        assert_close(variance, expected.flatten(1), rtol=1e-4)
        assert_close(variance_of(weight).flatten(), covariance.diagonal(), rtol=1e-4)


BENDS = [nn.ReLU(inplace=True), nn.LeakyReLU(0.2), nn.ELU(), nn.GELU(), nn.SiLU(), nn.Softplus(), nn.Tanh(),
         nn.Sigmoid(), nn.Hardswish(), nn.ReLU6(), nn.PReLU(8), nn.Identity(), nn.Dropout()]  # fmt: skip


@pytest.mark.parametrize("bend", BENDS, ids=lambda bend: type(bend).__name__)
def test_one_hidden_layer_is_exact_to_first_order(bend: nn.Module) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), bend, nn.Linear(8, 2)).eval()
    network[1].running_mean.normal_()
    network[1].running_var.uniform_(0.5, 2)
    x = torch.randn(4, 5)
    covariances = {name: covariance_of("diagonal", p, size=1e-3) for name, p in network.named_parameters()}
    mean, variance = tangent(network, x, covariances)
    assert torch.equal(mean, network(x))
    assert_close(variance, linearised(network, x, covariances), rtol=1e-3, atol=0)


class Residual(nn.Module):
    """In-place ReLU, a batch norm with its own statistics, an add, and functions beside modules."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1, bias=False)
        self.norm, self.relu = nn.BatchNorm2d(3), nn.ReLU(inplace=True)
        self.norm.running_mean.normal_(std=0.1)
        self.norm.running_var.uniform_(0.5, 1.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        self.relu(x)
        x = (1 + self.norm(self.second(x)) + x).relu()
        return nn.functional.max_pool2d(x, 2).flatten(1)


def deep(seed: int, kind: str) -> nn.Module:
    torch.manual_seed(seed)
    if kind in ("residual", "attention"):
        return (Residual() if kind == "residual" else Attention()).eval()
    if kind == "dense":
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    pool: nn.Module = nn.MaxPool2d(2) if kind == "largest" else nn.AvgPool2d(2)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), pool, nn.Conv2d(8, 8, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 4)
    )


class Attention(nn.Module):
    """Linear layers at several positions, a layer norm, a product of what two layers give."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.query = nn.Linear(6, 6), nn.Linear(6, 6)
        self.norm, self.last = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        rows = x[:, 0]
        weights = (self.key(rows) @ self.query(rows).transpose(1, 2)).softmax(-1)
        return self.last(self.norm(weights @ rows).mean(1))


@pytest.mark.parametrize("kind", ["dense", "largest", "mean", "residual", "attention"])
@pytest.mark.parametrize("structure", list(COVARIANCES))
def test_the_tangent_is_exact(kind: str, structure: str) -> None:
    network, x = deep(0, kind), torch.rand(4, 1, 6, 6)
    covariances = {name: covariance_of(structure, p, size=0.1) for name, p in network.named_parameters()}
    mean, variance = tangent(network, x, covariances)
    assert torch.equal(mean, network(x))
    assert_close(variance, linearised(network, x, covariances), rtol=1e-4, atol=1e-7)


def test_the_tangent_of_strides_and_dilations() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.PReLU(4), nn.Conv2d(4, 2, (2, 1), dilation=2),
                            nn.PReLU(), nn.Flatten())  # fmt: skip
    x = torch.randn(3, 1, 8, 8)
    covariances = {name: covariance_of("diagonal", p, size=0.1) for name, p in network.named_parameters()}
    assert_close(tangent(network, x, covariances)[1], linearised(network, x, covariances), rtol=1e-4, atol=1e-7)


class Scaled(nn.Module):
    """A weight that no layer holds."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(36))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) * self.scale


def test_an_unknown_operation_is_refused_with_the_known_ones_and_a_way_out() -> None:
    embedder = Embedder(Scaled(), FreePointHead(36, 2), SPEC)
    sure = laplace.fit_posterior(embedder, batches(), structure="diagonal", prior=100.0)
    assert isinstance(sure.encode(PIXELS), Draws)  # what can be said
    with pytest.raises(InputError, match="got mul") as raised:
        laplace.drawn(sure, 0).encode(PIXELS)
    assert all(name in str(raised.value) for name in RULES)
    assert "laplace.drawn" in str(raised.value)


def test_a_weight_used_twice_has_no_tangent_of_its_own() -> None:
    layer = nn.Linear(3, 3)
    with (
        pytest.raises(InputError, match="second use"),
        TangentRecorder({id(layer.weight): covariance_of("diagonal", layer.weight, size=1)}),
    ):
        layer(layer(torch.rand(2, 3)))


def batches(seed: int = 0, count: int = 2) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(12) % 3
    return [(torch.rand(12, 1, 6, 6, generator=generator) + 0.5 * labels.view(-1, 1, 1, 1), labels)] * count


PIXELS = batches()[0][0]


@pytest.fixture
def embedder() -> Embedder:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten())
    return Embedder(network, PointHead(12, 3), SPEC, card={"matcher": {"scale": 1.0}}).eval()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_places_stay_and_variance_comes(structure: laplace.Structure, embedder: Embedder) -> None:
    before = embedder.fingerprint
    sure = laplace.fit_posterior(embedder, batches(), structure=structure)
    embedding = sure.encode(PIXELS)
    assert isinstance(embedding, Gaussian)
    assert torch.equal(embedding.mean, embedder.encode(PIXELS).mean)
    assert (embedding.uncertainty > 0).all()
    assert embedder.fingerprint == before == sure.card["origin"]
    assert sure.card["matcher"] is None
    card = sure.card["laplace"]
    assert card["structure"] == structure
    assert set(card["priors"]) == {"backbone.0", "backbone.1", "head.location"}
    assert min(card["priors"].values()) <= card["prior"] <= max(card["priors"].values())
    assert "head.location.bias" not in sure.card["posterior"]["spreads"]  # no pair sees it
    refitted = laplace.fit_posterior(sure, batches(), structure="last-full").encode(PIXELS)
    assert same(refitted, laplace.fit_posterior(embedder, batches(), structure="last-full").encode(PIXELS))


def exact_diagonal(z: Tensor, parameters: list[Tensor], curvature: Curvature) -> list[Tensor]:
    sums = [Diagonal(parameter) for parameter in parameters]
    for found in gradients(z, parameters, curvature.root()):
        for total, gradient in zip(sums, found, strict=True):
            total.add(gradient)
    return [total.squares for total in sums]


@pytest.mark.parametrize("geometry", ["free", "euclidean"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_it_is_the_posterior_of_the_exact_curvature(structure: str, geometry: Geometry, embedder: Embedder) -> None:
    """Conv, batch norm, in-place ReLU and pooling: many random passes against every cotangent there is."""

    def curvature(z: Tensor, labels: Tensor) -> Curvature:
        return pair_curvature(z, PairGraph.from_labels(labels), geometry=geometry)

    gathered = gather_network(
        Subject(embedder.backbone, embedder.head, "location"),
        batches(count=1),
        curvature=curvature,
        temperature=2.0,
        kronecker=structure == "kronecker",
        parameters=lambda name: True,
        passes=3000,
    )
    priors = {layer: 2.0 * (number + 1) for number, layer in enumerate(gathered.weights())}
    found = dict(zip(gathered.spectra, gathered.posterior(priors).head.spreads, strict=True))

    pixels, labels = batches()[0]
    curved = curvature(embedder.head.location(embedder.backbone(pixels)), labels)
    named = {name: p for name, p in embedder.named_parameters() if name != "head.location.bias"}
    assert list(found) == list(named)
    scale = 12 / 2.0 / curved.count
    for name, p in named.items():
        prior = priors[name.rpartition(".")[0]]
        z = embedder.head.location(embedder.backbone(pixels))
        if found[name].kind == "kronecker":
            factors = Kronecker(p)
            for (gradient,) in gradients(z, [p], curved.root()):
                factors.add(gradient)
            exact = torch.kron(factors.outer, factors.inner) / factors.outer.trace()
            expected = torch.linalg.inv(scale * exact + prior * torch.eye(p.numel())).diagonal().view_as(p)
        else:
            expected = 1 / (scale * exact_diagonal(z, [p], curved)[0] + prior)
        assert_close(variance_of(found[name]), expected.float(), rtol=0.15, atol=0)


def test_an_exact_diagonal(embedder: Embedder) -> None:
    pixels, labels = batches()[0]
    z = embedder.head.location(embedder.backbone(pixels))
    curved = laplace.positive_pairs(z, labels)
    named = [p for name, p in embedder.named_parameters() if name != "head.location.bias"]
    found = laplace.fit_posterior(embedder, batches(count=1), structure="exact-diagonal", prior=2.0).head.spreads
    for exact, covariance in zip(exact_diagonal(z, named, curved), found, strict=True):
        assert_close(variance_of(covariance), 1 / (12 / curved.count * exact + 2.0), rtol=1e-4, atol=0)


def test_some_parameters_alone(embedder: Embedder) -> None:
    sure = laplace.fit_posterior(
        embedder, batches(), structure="diagonal", prior=1e3, parameters=lambda name: "backbone.0" in name
    )
    assert sure.head.names == ("backbone.0.weight", "backbone.0.bias")
    drawn = laplace.drawn(sure, 500).encode(PIXELS)
    assert_close(sure.encode(PIXELS).uncertainty, drawn.uncertainty, rtol=0.3, atol=0)
    whole = laplace.fit_posterior(embedder, batches(), structure="diagonal", prior=1e3)
    assert (sure.encode(PIXELS).uncertainty < whole.encode(PIXELS).uncertainty).all()
    for none in (lambda name: False, lambda name: name == "head.location.bias"):
        with pytest.raises(InputError, match="a choice of names"):
            laplace.fit_posterior(embedder, batches(), structure="diagonal", parameters=none)
    with pytest.raises(InputError, match="structure diagonal or"):
        laplace.fit_posterior(embedder, batches(), parameters=lambda name: True)


@pytest.mark.parametrize("structure", [*STRUCTURES, "last-full"])
def test_a_prior_by_validation(structure: laplace.Structure, embedder: Embedder) -> None:
    sure = laplace.fit_posterior(embedder, batches(), structure=structure, prior="validation", held_out=batches(seed=1))
    card = sure.card["laplace"]
    tried = {float(relative): loss for relative, loss in card["tried"].items()}
    assert len(tried) >= 4
    chosen = min(relative for relative in tried if tried[relative] <= 1.01 * min(tried.values()))
    weight = embedder.head.location.weight
    prior = card["priors"]["head.location"] if "priors" in card else card["prior"]
    assert prior == pytest.approx(chosen * weight.numel() / weight.square().sum().item(), rel=1e-4)
    same_prior = laplace.fit_posterior(embedder, batches(), structure=structure, prior=prior)
    if structure == "last-full":
        assert same(sure.encode(PIXELS), same_prior.encode(PIXELS))
    with pytest.raises(InputError, match="expected prior validation"):
        laplace.fit_posterior(embedder, batches(), structure=structure, prior=1.0, held_out=batches(seed=1))
    with pytest.raises(InputError, match="marginal or validation"):
        laplace.fit_posterior(embedder, batches(), structure=structure, prior="best")  # type: ignore[arg-type]


@pytest.mark.parametrize("draws", [0, 3])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_saved_and_loaded_bit_for_bit(
    structure: laplace.Structure, draws: int, embedder: Embedder, tmp_path: Path
) -> None:
    sure = laplace.with_novelty(laplace.fit_posterior(embedder, batches(), structure=structure), batches(seed=1))
    sure = laplace.drawn(sure, draws, seed=5)
    sure.save(tmp_path)
    again = Embedder.load(tmp_path, backbone=embedder.backbone, head=PointHead(12, 3))
    embedding = sure.encode(PIXELS)
    assert isinstance(embedding, Draws if draws else NovelGaussian)
    assert same(again.encode(PIXELS), embedding)
    assert again.fingerprint == sure.fingerprint
    assert sorted(file.name for file in tmp_path.iterdir()) == ["card.json", "weights.safetensors"]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_draws_are_the_same_networks_for_every_picture(structure: laplace.Structure, embedder: Embedder) -> None:
    sure = laplace.drawn(laplace.fit_posterior(embedder, batches(), structure=structure), 4, seed=7)
    pixels = batches()[0][0]
    with torch.no_grad():
        together, alone = sure(pixels), sure(pixels[5:6])
        other = laplace.drawn(sure, 4, seed=8)(pixels)
    assert isinstance(together, Draws)
    assert_close(together.atoms.mean[5:6], alone.atoms.mean)
    assert not torch.equal(together.atoms.mean, other.atoms.mean)
    assert_close(together.atoms.mean.norm(dim=-1), torch.ones(12, 4))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_draws_agree_with_the_closed_form(structure: laplace.Structure, embedder: Embedder) -> None:
    sure = laplace.fit_posterior(embedder, batches(), structure=structure, prior=1e5)
    closed, drawn = sure.encode(PIXELS), laplace.drawn(sure, 1000).encode(PIXELS)
    assert_close(closed.uncertainty, drawn.uncertainty, rtol=0.2, atol=0)


def test_a_flat_posterior_warns(embedder: Embedder) -> None:
    pixels, labels = batches()[0]
    alike = [(pixels[:1].expand(12, -1, -1, -1), labels)]
    with pytest.warns(laplace.FlatVarianceWarning, match="diagonal"):
        laplace.fit_posterior(embedder, alike, structure="diagonal", prior=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        laplace.fit_posterior(embedder, batches(), structure="diagonal")


def test_frozen_layers_take_part_and_stay_frozen(embedder: Embedder) -> None:
    embedder.backbone.requires_grad_(False)
    sure = laplace.fit_posterior(embedder, batches(), structure="diagonal")
    assert "backbone.0.weight" in sure.card["posterior"]["spreads"]
    assert not any(p.requires_grad for p in sure.head.backbone.parameters())
    assert all(p.requires_grad for p in sure.head.head.parameters())


def test_no_pairs_are_refused(embedder: Embedder) -> None:
    with pytest.raises(InputError, match="no pair"):
        laplace.fit_posterior(embedder, [], structure="diagonal")
