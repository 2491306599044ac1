"""Contrastive learning with sampled embeddings."""

import math

import pytest
import torch
from torch import Tensor

from howsure.embeddings import Gaussian, Point
from howsure.errors import InputError
from howsure.losses import MCInfoNCE

LABELS = torch.tensor([0, 0, 1, 1, 1, 2])
MEAN = torch.nn.functional.normalize(torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), dim=-1)


def by_loops(samples: Tensor, labels: Tensor, temperature: float) -> float:
    """The formula as it is written, in float64, ratio by ratio."""
    z = samples.double() / samples.double().norm(dim=-1, keepdim=True)
    values = []
    for i in range(len(labels)):
        for j in range(len(labels)):
            if i == j or labels[i] != labels[j]:
                continue
            ratios = []
            for one in z:
                hit = math.exp(temperature * float(one[i] @ one[j]))
                others = [
                    math.exp(temperature * float(one[i] @ one[k])) for k in range(len(labels)) if labels[k] != labels[i]
                ]
                ratios.append(hit / (hit + sum(others) / len(others)))
            values.append(-math.log(sum(ratios) / len(ratios)))
    return sum(values) / len(values)


@pytest.mark.parametrize("temperature", [1.0, 16.0])
def test_the_formula_by_loops(temperature: float) -> None:
    embedding = Gaussian(MEAN, torch.linspace(0.1, 0.6, 6)[:, None])
    torch.manual_seed(1)
    value = MCInfoNCE(temperature=temperature, samples=5)(embedding, LABELS).item()
    torch.manual_seed(1)
    assert value == pytest.approx(by_loops(embedding.sample(5), LABELS, temperature), rel=1e-4)


def test_points_give_the_same_with_any_number_of_samples() -> None:
    wanted = by_loops(MEAN[None], LABELS, 16.0)
    for samples in (1, 7):
        assert MCInfoNCE(samples=samples)(Point(MEAN), LABELS).item() == pytest.approx(wanted, rel=1e-5)


def test_location_scale_and_temperature_all_get_a_gradient() -> None:
    mean, scale = MEAN.clone().requires_grad_(), torch.full((6, 1), 0.3, requires_grad=True)
    loss = MCInfoNCE()
    loss(Gaussian(mean, scale), LABELS).backward()
    for parameter in (mean, scale, loss.log_temperature):
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
        assert (parameter.grad != 0).all()


def test_an_item_among_strangers_learns_doubt_and_one_at_home_learns_trust() -> None:
    """Item 0 lies with the other class; the scales alone may learn."""
    angle = torch.tensor([1.5, 0.0, 0.1, -0.1, 1.5, 1.6, 1.4, 1.5])
    mean = torch.stack([angle.cos(), angle.sin()], 1)
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    log_scale = torch.full((8, 1), math.log(0.3), requires_grad=True)
    optimizer = torch.optim.Adam([log_scale], lr=0.06)
    loss = MCInfoNCE(samples=32)
    torch.manual_seed(0)
    for _ in range(60):
        optimizer.zero_grad()
        loss(Gaussian(mean, log_scale.exp()), labels).backward()
        optimizer.step()
    scale = log_scale.detach().exp()[:, 0]
    assert scale[0] > 2 * scale[1:].max()


def test_no_overflow_at_a_high_temperature() -> None:
    mean = MEAN.clone().requires_grad_()
    value = MCInfoNCE(temperature=1e4)(Gaussian(mean, torch.full((6, 1), 0.1)), LABELS)
    value.backward()
    assert torch.isfinite(value)
    assert mean.grad is not None
    assert torch.isfinite(mean.grad).all()


@pytest.mark.parametrize(
    "labels", [torch.zeros(6, dtype=torch.long), torch.arange(6)], ids=["one class", "no positives"]
)
def test_a_batch_of_one_kind_of_pair_is_refused(labels: Tensor) -> None:
    with pytest.raises(InputError, match="matching and different pairs"):
        MCInfoNCE()(Point(MEAN), labels)


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"samples": 0}, {"temperature": math.nan}])
def test_options_that_make_no_sense(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match="mc-infonce"):
        MCInfoNCE(**options)  # type: ignore[arg-type]


def test_nan_is_not_hidden() -> None:
    broken = MEAN.clone()
    broken[0] = torch.nan
    with pytest.raises(InputError, match="finite"):
        MCInfoNCE()(Point(broken), LABELS)
