"""Accuracy and speed of the von Mises-Fisher functions, beside scipy and the formulas of public torch code.

Exact values come from the table of the tests: dimensions 2 to 4096, concentrations 1e-3 to 1e7, 50 digits. A bar on an
error is a bar on ours itself. The error of a reference is the worst among its finite values; how many are not finite
stands in a row of its own. Relative errors of log C + k are to 1 + |value|, since it passes through zero.
"""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from form import Row, alternately, at_most, run
from scipy.special import ive

from howsure.numerics import vmf

TABLE = json.loads((Path(__file__).parents[1] / "tests" / "numerics" / "vmf_table.json").read_text())
DIMS = sorted({row["dim"] for row in TABLE})
BAR = 1e-12
COUNT = 10_000  # values a call, for speed

Formula = Callable[[np.ndarray, int], np.ndarray]


def plain_scaled(k: np.ndarray, dim: int) -> np.ndarray:
    """log C + k from the exponentially scaled Bessel function."""
    nu = dim / 2 - 1
    return -(dim / 2) * math.log(2 * math.pi) - np.log(ive(nu, k)) + nu * np.log(k)


def guarded_scaled(k: np.ndarray, dim: int) -> np.ndarray:
    """The same with 1e-6 added inside the logarithm, as sphere confidence faces does."""
    nu = dim / 2 - 1
    return -(dim / 2) * math.log(2 * math.pi) - np.log(ive(nu, k) + 1e-6) + nu * np.log(k)


def plain_resultant(k: np.ndarray, dim: int) -> np.ndarray:
    """A as the ratio of two scaled Bessel functions."""
    return ive(dim / 2, k) / ive(dim / 2 - 1, k)


def mean_of_bounds(k: np.ndarray, dim: int) -> np.ndarray:
    """A as the mean of Amos' lower and upper bound."""
    nu = dim / 2 - 1
    low, high = (k / (nu + 0.5 + np.sqrt((nu + shift) ** 2 + k**2)) for shift in (1.5, 0.5))
    return (low + high) / 2


def kumar_tsvetkov(k: np.ndarray, dim: int) -> np.ndarray:
    """A by the bound that Kumar and Tsvetkov integrate for their loss."""
    nu = dim / 2 - 1
    return k / (nu + np.sqrt((nu + 2) ** 2 + k**2))


# our function, as it is written, what others compute in its place, and how
RIVALS: list[tuple[str, str, str, Formula]] = [
    ("scaled_log_normalizer", "log C + k", "scipy's ive", plain_scaled),
    ("scaled_log_normalizer", "log C + k", "log(ive + 1e-6)", guarded_scaled),
    ("mean_resultant", "A", "ive / ive", plain_resultant),
    ("mean_resultant", "A", "mean of Amos' bounds", mean_of_bounds),
    ("mean_resultant", "A", "Kumar-Tsvetkov", kumar_tsvetkov),
    ("mean_resultant_gap", "1 - A", "1 - ive / ive", lambda k, dim: 1 - plain_resultant(k, dim)),
    ("mean_resultant_gap", "1 - A", "1 - Kumar-Tsvetkov", lambda k, dim: 1 - kumar_tsvetkov(k, dim)),
]


def measure(quick: bool) -> list[Row]:
    rows = []
    for column, what, name, formula in RIVALS:
        ours, theirs = (errors(function, column) for function in (our(column), formula))
        rows.append(within(f"{what}, relative error, beside {name}", *map(worst, (ours, theirs)), bar=BAR))
        lost = (float(np.count_nonzero(~np.isfinite(error))) for error in (ours, theirs))
        rows.append(within(f"{what}, not finite of {len(TABLE)}, beside {name}", *lost, bar=0.0))
    return rows + [row for dim in (2, 128, 1024) for row in speed(dim, times=10 if quick else 100)]


def our(column: str) -> Formula:
    return lambda k, dim: getattr(vmf, column)(torch.from_numpy(k), dim).numpy()


def errors(formula: Formula, column: str) -> np.ndarray:
    """Relative to the exact value at every point of the table."""
    found = []
    for dim in DIMS:
        k, exact = (np.array([row[key] for row in TABLE if row["dim"] == dim]) for key in ("concentration", column))
        with np.errstate(all="ignore"):  # what is not finite is counted
            got = formula(k, dim)
        found.append(np.abs(got - exact) / (np.abs(exact) + (column == "scaled_log_normalizer")))
    return np.concatenate(found)


def worst(error: np.ndarray) -> float:
    return float(error[np.isfinite(error)].max())


def within(what: str, ours: float, reference: float, *, bar: float) -> Row:
    """An error: ours itself should not exceed the bar."""
    ratio = at_most(what, ours, reference).ratio
    return Row(what, ours, reference, ratio, bar, ours <= bar)


def speed(dim: int, *, times: int) -> list[Row]:
    """Milliseconds of one thread for the function, and with its gradient, beside scipy's, which has no gradient."""
    k = np.geomspace(dim, 1e7, COUNT)  # where scipy's result is finite: it is fast where it fails
    tensor = torch.from_numpy(k)
    leaf = tensor.clone().requires_grad_()

    def with_gradient() -> None:
        torch.autograd.grad(vmf.scaled_log_normalizer(leaf, dim).sum(), leaf)

    torch.set_num_threads(1)
    calls = {"ms": lambda: vmf.scaled_log_normalizer(tensor, dim), "ms with gradient": with_gradient}
    what = f"log C + k, {COUNT:,} values, d = {dim}"
    rows = []
    for unit, call in calls.items():
        seconds = alternately(call, lambda: plain_scaled(k, dim), times, clock=time.process_time)
        rows.append(at_most(f"{what}, {unit}, beside scipy's ive", *(1e3 * value for value in seconds)))
    return rows


if __name__ == "__main__":
    run(measure)
