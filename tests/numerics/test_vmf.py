"""Against 50-digit values, bounds that hold for every argument, and finite differences."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from howsure.errors import InputError
from howsure.numerics import vmf

TABLE = json.loads((Path(__file__).parent / "vmf_table.json").read_text())
DIMS = sorted({row["dim"] for row in TABLE})
FUNCTIONS = ("scaled_log_normalizer", "mean_resultant", "mean_resultant_gap")


def column(dim: int, name: str) -> torch.Tensor:
    return torch.tensor([row[name] for row in TABLE if row["dim"] == dim], dtype=torch.float64)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(dim: int, name: str) -> None:
    got, wanted = getattr(vmf, name)(column(dim, "concentration"), dim), column(dim, name)
    # log C + k passes through zero, where only the absolute error means something.
    size = 1 + wanted.abs() if name == "scaled_log_normalizer" else wanted.abs()
    assert ((got - wanted).abs() / size).max() < 1e-13


@pytest.mark.parametrize("dim", DIMS)
def test_slope(dim: int) -> None:
    k = column(dim, "concentration").requires_grad_()
    (slope,) = torch.autograd.grad(vmf.mean_resultant(k, dim).sum(), k)
    wanted = column(dim, "slope")
    assert ((slope - wanted).abs() / wanted).max() < 1e-6


@pytest.mark.parametrize("dim", [2, 3, 16, 128])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_and_second_derivatives(dim: int, name: str) -> None:
    k = torch.tensor([0.3, 5.0, 80.0, 900.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: getattr(vmf, name)(x, dim), k)
    assert gradgradcheck(lambda x: getattr(vmf, name)(x, dim), k)


@pytest.mark.parametrize("dim", DIMS)
def test_amos_bounds_and_monotony(dim: int) -> None:
    k = torch.logspace(-3, 7, 200, dtype=torch.float64)
    nu = dim / 2 - 1
    a = vmf.mean_resultant(k, dim)
    low = k / (nu + 0.5 + torch.sqrt((nu + 1.5) ** 2 + k**2))
    high = k / (nu + 0.5 + torch.sqrt((nu + 0.5) ** 2 + k**2))
    rounding = 1 + 1e-14
    assert (low <= a * rounding).all()
    assert (a <= high * rounding).all()
    assert (a.diff() >= 0).all()
    assert (vmf.mean_resultant(k, dim + 1) < a).all()


@pytest.mark.parametrize("dim", [2, 3, 128, 4096])
def test_at_zero(dim: int) -> None:
    zero = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    area = math.log(2) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2)
    assert vmf.scaled_log_normalizer(zero, dim).item() == pytest.approx(-area, rel=1e-14)
    assert vmf.mean_resultant(zero, dim).item() == 0
    (slope,) = torch.autograd.grad(vmf.mean_resultant(zero, dim), zero)
    assert slope.item() == pytest.approx(1 / dim, rel=1e-13)


def test_three_dimensions_in_closed_form() -> None:
    k = torch.tensor([0.1, 1.0, 10.0], dtype=torch.float64)
    wanted = torch.log(k / (4 * math.pi * torch.sinh(k))) + k
    assert torch.allclose(vmf.scaled_log_normalizer(k, 3), wanted, rtol=1e-13)
    assert torch.allclose(vmf.mean_resultant(k, 3), 1 / torch.tanh(k) - 1 / k, rtol=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 10, 128, 1024])
def test_inverse(dim: int) -> None:
    r = torch.tensor([0.0, 1e-6, 0.01, 0.5, 0.9, 0.999, 0.9999], dtype=torch.float64)
    k = vmf.inverse_mean_resultant(r, dim)
    assert torch.allclose(vmf.mean_resultant(k, dim), r, rtol=1e-12, atol=0)
    inner = r[1:-1].clone().requires_grad_()
    assert gradcheck(lambda x: vmf.inverse_mean_resultant(x, dim), inner, eps=1e-8, rtol=1e-3)


def test_half_way_values() -> None:
    """The concentration at which the expected cosine is one half."""
    for dim, wanted in ((2, 1.159), (3, 1.797), (5, 3.103), (16, 10.41), (128, 85.07), (2048, 1365.1)):
        got = vmf.inverse_mean_resultant(torch.tensor(0.5, dtype=torch.float64), dim)
        assert got.item() == pytest.approx(wanted, rel=1e-3)


def test_real_orders_one_for_each_element() -> None:
    x = torch.tensor([0.0, 0.5, 3.0, 200.0], dtype=torch.float64)
    for order in (-0.4, 0.0, 0.5, 7.25, 63.0):
        each = vmf.log_bessel(torch.full_like(x, order), x)
        assert torch.allclose(each, vmf.log_bessel(order, x), rtol=1e-13, atol=1e-13)
    orders = torch.tensor([0.3, 2.0, 9.5], dtype=torch.float64, requires_grad=True)
    at = torch.tensor([0.7, 3.0, 20.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(vmf.log_bessel, (orders, at))


def test_dtype_is_kept_and_computed_in_double() -> None:
    k = torch.tensor([1e-3, 1e3, 1e7], dtype=torch.float32)
    for name in FUNCTIONS:
        got = getattr(vmf, name)(k, 512)
        assert got.dtype == torch.float32
        assert torch.equal(got, getattr(vmf, name)(k.double(), 512).float())


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_impossible_concentrations(bad: float) -> None:
    with pytest.raises(InputError, match="concentration"):
        vmf.scaled_log_normalizer(torch.tensor([1.0, bad]), 3)


def test_impossible_dimensions_types_and_resultants() -> None:
    with pytest.raises(InputError, match="2 or more"):
        vmf.mean_resultant(torch.ones(1), 1)
    with pytest.raises(InputError, match="floating-point"):
        vmf.mean_resultant(np.ones(1), 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="below 1"):
        vmf.inverse_mean_resultant(torch.tensor([1.0]), 3)
