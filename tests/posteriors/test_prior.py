import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from howsure.errors import InputError
from howsure.posteriors.prior import marginal_prior

CURVATURE = torch.tensor([0.0, 1e-6, 0.3, 4.0, 900.0], dtype=torch.float64)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("squared_norm", [1e-4, 0.7, 1e5])
def test_it_is_the_minimum_of_the_negative_log_evidence(squared_norm: float, copies: int) -> None:
    h = CURVATURE.numpy()

    def minus_log_evidence(log_prior: float) -> float:
        prior = np.exp(log_prior)
        return 0.5 * (copies * np.sum(np.log(h + prior) - np.log(prior)) + prior * squared_norm)

    best = minimize_scalar(minus_log_evidence, bounds=(-30, 30), method="bounded", options={"xatol": 1e-10}).x
    found = marginal_prior(CURVATURE, squared_norm=squared_norm, copies=copies)
    assert np.log(found) == pytest.approx(best, abs=1e-5)


def test_it_follows_the_scale_of_the_weights() -> None:
    one = marginal_prior(CURVATURE, squared_norm=0.7)
    assert marginal_prior(CURVATURE / 100**2, squared_norm=0.7 * 100**2) == pytest.approx(one / 100**2)


@pytest.mark.parametrize(
    ("curvature", "squared_norm"), [([0.0, 0.0], 1.0), ([1.0, -1.0], 1.0), ([1.0], 0.0), ([float("nan")], 1.0)]
)
def test_no_evidence_at_all_is_refused(curvature: list[float], squared_norm: float) -> None:
    with pytest.raises(InputError, match="give a prior precision yourself"):
        marginal_prior(torch.tensor(curvature), squared_norm=squared_norm)
