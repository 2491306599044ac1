"""Whole networks with convolutions, batch norm, residual adds and in-place ReLU, against Jacobians by autograd."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from howsure.errors import InputError
from howsure.posteriors.laplace.curvature import Curvature, pair_curvature
from howsure.posteriors.laplace.network_curvature import Diagonal, Kronecker, ParameterCurvature, gradients
from howsure.posteriors.laplace.pairs import PairGraph
from posteriors.closeness import assert_close

LABELS = torch.tensor([0, 0, 0, 0, 1, 1])
B, D = 6, 3


class Residual(nn.Module):
    """Everything that breaks hooks: in-place ReLU, a residual add, batch norm with its own statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1, bias=False)
        self.norm, self.relu = nn.BatchNorm2d(2), nn.ReLU(inplace=True)
        self.last = nn.Linear(2 * 16, D)
        self.norm.running_mean.normal_(std=0.1)
        self.norm.running_var.uniform_(0.1, 0.4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.first(x))
        x = self.relu(self.norm(self.second(x)) + x)
        return self.last(x.flatten(1))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.key, self.query = nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm, self.last = nn.LayerNorm(4), nn.Linear(4, D)

    def forward(self, x: Tensor) -> Tensor:
        rows = x[:, 0]
        weights = (self.key(rows) @ self.query(rows).transpose(1, 2)).softmax(-1)
        return self.last(self.norm(weights @ rows).mean(1))


NETWORKS: dict[str, Callable[[], nn.Module]] = {"residual": Residual, "attention": Attention}
KINDS = [("pos", "free"), ("pos", "euclidean"), ("psd", "euclidean"), ("psd", "arccos")]


@pytest.fixture(params=[(n, *k) for n in NETWORKS for k in KINDS], ids=str)
def case(request: pytest.FixtureRequest) -> tuple[nn.Module, Tensor, Curvature, Tensor]:
    """A network, embeddings with their graph, their curvature, and the Gauss-Newton matrix by brute force, (P, P)."""
    name, variant, geometry = request.param
    torch.manual_seed(0)
    network = NETWORKS[name]().double().eval()
    x = torch.randn(B, 1, 4, 4, dtype=torch.float64)
    z = network(x)
    curvature = pair_curvature(z, PairGraph.from_labels(LABELS), variant=variant, geometry=geometry)
    rows = [torch.autograd.grad(out, list(network.parameters()), retain_graph=True) for out in z.flatten()]
    assert all(torch.stack(part).any() for part in zip(*rows, strict=True))  # no part of the network is dead
    jacobian = torch.stack([flat(row) for row in rows])
    return network, z, curvature, jacobian.T @ curvature.dense().reshape(z.numel(), z.numel()) @ jacobian


def summed(
    form: type[ParameterCurvature], z: Tensor, parameters: Sequence[Tensor], cotangents: Tensor
) -> list[ParameterCurvature]:
    sums = [form(parameter) for parameter in parameters]  # type: ignore[call-arg]
    for found in gradients(z, parameters, cotangents):
        for total, gradient in zip(sums, found, strict=True):
            total.add(gradient)
    return sums


def diagonals(z: Tensor, parameters: Sequence[Tensor], cotangents: Tensor) -> list[Tensor]:
    return [total.squares for total in summed(Diagonal, z, parameters, cotangents)]


def matrix(factors: Kronecker) -> Tensor:
    """(O·I, O·I)."""
    values, (outer, inner) = factors.spectrum(1.0).values, factors.spectrum(1.0).axes
    axes = torch.kron(outer, inner)
    return axes @ torch.diag(values.flatten()) @ axes.T


def flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def test_the_exact_diagonal(case: tuple[nn.Module, Tensor, Curvature, Tensor]) -> None:
    network, z, curvature, exact = case
    found = diagonals(z, list(network.parameters()), curvature.root())
    assert [part.shape for part in found] == [p.shape for p in network.parameters()]
    assert_close(flat(found), exact.diagonal(), rtol=1e-8, atol=1e-10)


def test_the_sampled_diagonal_is_right_on_average(case: tuple[nn.Module, Tensor, Curvature, Tensor]) -> None:
    network, z, curvature, exact = case
    cotangents = curvature.cotangents(800, generator=torch.Generator().manual_seed(0))
    found = flat(diagonals(z, list(network.parameters()), cotangents)) / 800
    error = (found - exact.diagonal()).abs() / (exact.diagonal() + 1e-12 * exact.trace())
    assert error.median() < 0.06  # one standard deviation is sqrt(2/800) = 0.05 at most
    assert error.max() < 0.3
    assert found.sum().item() == pytest.approx(exact.trace().item(), rel=0.1)


def test_any_subset_of_parameters_will_do(case: tuple[nn.Module, Tensor, Curvature, Tensor]) -> None:
    network, z, curvature, exact = case
    found = diagonals(z, [network.last.bias], curvature.root())[0]
    assert_close(found, exact.diagonal()[-D:], rtol=1e-8, atol=1e-10)


def test_kronecker_factors_keep_the_trace_of_every_layer(case: tuple[nn.Module, Tensor, Curvature, Tensor]) -> None:
    network, z, curvature, exact = case
    start = 0
    rows = {}
    for name, parameter in network.named_parameters():
        rows[name] = slice(start, start + parameter.numel())
        start += parameter.numel()
    matrices = {name: p for name, p in network.named_parameters() if p.ndim > 1}
    for name, found in zip(matrices, summed(Kronecker, z, list(matrices.values()), curvature.root()), strict=True):
        block = exact[rows[name], rows[name]]
        assert_close(matrix(found).trace(), block.trace(), rtol=1e-8, atol=1e-12)


def test_kronecker_factors_are_exact_where_the_curvature_is_kronecker() -> None:
    """The last layer, without a sphere: I ⊗ Φ^T L Φ."""
    features = torch.randn(B, 4, dtype=torch.float64)
    last = nn.Linear(4, D, bias=False).double()
    z = last(features)
    pairs = PairGraph.from_labels(LABELS)
    (found,) = summed(Kronecker, z, [last.weight], pair_curvature(z, pairs, geometry="free").root())
    exact = torch.kron(torch.eye(D, dtype=torch.float64), features.T @ pairs.laplacian("pos") @ features)
    assert_close(matrix(found), exact)


def test_what_has_no_gradient() -> None:
    last = nn.Linear(4, D)
    z = last(torch.randn(B, 4))
    cotangents = pair_curvature(z, PairGraph.from_labels(LABELS)).root()
    unused = torch.zeros(3, requires_grad=True)
    assert not diagonals(z, [unused], cotangents)[0].any()
    with pytest.raises(InputError, match="the embeddings"):
        diagonals(last(torch.randn(B + 1, 4)), [last.weight], cotangents)
