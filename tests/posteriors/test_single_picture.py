"""One picture at a time gets the numbers that a batch gets."""

import pytest
import torch

from howsure.data import InputSpec
from howsure.embedder import Embedder
from howsure.posteriors import laplace
from howsure.posteriors.laplace.covariance import SharedWeights
from howsure.posteriors.laplace.learned_variance import LearnedVariance, with_learned_variance

SPEC = InputSpec(8, 8, 1, (0.0,), (1.0,))
PIXELS = torch.rand(48, 1, 8, 8, generator=torch.Generator().manual_seed(0))
BATCHES = [(PIXELS, torch.arange(48) % 4)]


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "howsure.posteriors.laplace.learned_variance.STEPS", 20
    )  # how well it learns is tested elsewhere


def grown(dim: int, dtype: torch.dtype = torch.float32) -> LearnedVariance:
    """One that says something: every layer counts, and inputs lie far from 0."""
    torch.manual_seed(dim)
    ambiguity = LearnedVariance(dim).to(dtype)
    ambiguity.start(3 + torch.randn(50, dim, dtype=dtype), 1e-4 * torch.rand(50, dtype=dtype), variance=0.3)
    for parameter in ambiguity.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return ambiguity.requires_grad_(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [1, 3, 16])
def test_a_folded_network_says_what_its_layers_say(dim: int, dtype: torch.dtype) -> None:
    ambiguity = grown(dim, dtype)
    mean, total = 3 + torch.randn(40, dim, dtype=dtype), 1e-4 * torch.rand(40, dtype=dtype)
    total[0] = 0.0
    layers = ambiguity.train()(mean, total)
    folded = ambiguity.eval()(mean, total)
    assert folded.dtype == dtype
    torch.testing.assert_close(folded, layers, rtol=1e-4 if dtype == torch.float32 else 1e-9, atol=0)
    assert layers.std() > 0.01  # something to be wrong about
    one_by_one = torch.cat([ambiguity(mean[i : i + 1], total[i : i + 1]) for i in range(40)])
    torch.testing.assert_close(one_by_one, folded, rtol=1e-5, atol=0)


def test_what_is_loaded_or_moved_is_folded_anew() -> None:
    ambiguity, other = grown(3).eval(), grown(3).eval()
    with torch.no_grad():
        other.line.bias.add_(1.0)
    mean, total = 3 + torch.randn(5, 3), 1e-4 * torch.rand(5)
    before = ambiguity(mean, total)
    ambiguity.load_state_dict(other.state_dict())
    torch.testing.assert_close(ambiguity(mean, total), other(mean, total))
    assert (ambiguity(mean, total) != before).all()
    double = ambiguity.double()(mean.double(), total.double())
    torch.testing.assert_close(double.float(), other(mean, total), rtol=1e-4, atol=0)


def test_what_was_trained_between_two_looks_is_folded_anew() -> None:
    ambiguity, mean, total = grown(3), 3 + torch.randn(5, 3), 1e-4 * torch.rand(5)
    before = ambiguity.eval()(mean, total)
    ambiguity.training = True  # as after a look in the middle of training
    ambiguity.line.bias.add_(1.0)
    torch.testing.assert_close(ambiguity.eval()(mean, total), before * torch.e, rtol=1e-4, atol=0)


def test_a_gradient_goes_through_the_layers() -> None:
    mean = (3 + torch.randn(5, 3)).requires_grad_()
    grown(3).eval()(mean, 1e-4 * torch.rand(5)).sum().backward()
    assert mean.grad is not None
    assert (mean.grad != 0).any()


def test_prepared_variances_follow_the_posterior() -> None:
    torch.manual_seed(0)
    axes = torch.linalg.qr(torch.randn(6, 3))[0].T.contiguous()
    weights = SharedWeights(torch.randn(6), axes=axes, along=torch.rand(3), across=torch.tensor(2.0))
    features = torch.randn(4, 6)

    def expected() -> torch.Tensor:
        gap = features - weights.centre
        parts = gap @ axes.T
        left = gap - parts @ axes
        return (parts.square() @ weights.along + weights.across * left.square().sum(1))[:, None]

    torch.testing.assert_close(weights.variance(features), expected())
    weights.along.mul_(3.0)  # as fitting online does
    weights.across.mul_(0.5)
    torch.testing.assert_close(weights.variance(features), expected())


@pytest.mark.parametrize("structure", ["last-full", "last-low-rank", "last-diagonal"])
def test_a_picture_alone_gets_what_it_gets_among_others(structure: laplace.Structure) -> None:
    torch.manual_seed(0)
    plain = Embedder("mlp", "point", SPEC, dim=3).eval()
    fitted = laplace.with_novelty(laplace.fit_posterior(plain, BATCHES, structure=structure, rank=8), BATCHES)
    embedder = with_learned_variance(fitted, BATCHES)
    together = embedder.encode(PIXELS)
    for row in (0, 17):
        alone = embedder.encode(PIXELS[row : row + 1])
        torch.testing.assert_close(alone.mean, together[row].mean)
        torch.testing.assert_close(alone.uncertainty, together[row].uncertainty, rtol=1e-3, atol=0)
        assert alone.novelty is not None
        assert abs(float(alone.novelty - together[row].novelty)) <= 2 / 49  # it is in the reference itself


def test_pixels_that_are_no_numbers_are_named_once() -> None:
    plain = Embedder("mlp", "point", SPEC, dim=3).eval()
    embedder = with_learned_variance(laplace.with_novelty(laplace.fit_posterior(plain, BATCHES), BATCHES), BATCHES)
    with pytest.raises(ValueError, match="NaN or infinity in 1 of 2 items, first item 1"):
        embedder.encode(torch.stack([PIXELS[0], torch.full_like(PIXELS[0], torch.nan)]))
