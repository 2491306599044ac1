import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from howsure.embeddings import Point
from howsure.errors import InputError
from howsure.posteriors.laplace.prior_precision import marginal_prior, match_loss

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


LABELS = torch.arange(60) % 3


def around(scale: float) -> Point:
    """Three classes on a line, some distance apart."""
    noise = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    return Point(3.0 * LABELS[:, None] * torch.tensor([1.0, 0.0]) + scale * noise)


def test_distances_that_tell_more_lose_less() -> None:
    losses = [match_loss(around(scale), LABELS) for scale in (0.5, 1.0, 2.0)]
    assert losses == sorted(losses)
    assert losses[0] < 0.2
    assert 0.4 < losses[-1] < np.log(2)


def test_the_loss_is_that_of_a_logistic_regression() -> None:
    """The same with scikit-learn: balanced weights, fitted on one half and judged on the other."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    embedding = around(2.0)
    rows = np.random.default_rng(0).permutation(60)
    halves = []
    for part in (rows[::2], rows[1::2]):
        first, second = np.triu_indices(30, 1)
        z, y = embedding.mean[part], LABELS[part]
        halves.append((torch.cdist(z, z)[first, second].double().numpy()[:, None], (y[first] == y[second]).numpy()))
    losses = []
    for (x, same), (seen, truth) in (halves, halves[::-1]):
        model = LogisticRegression(C=1e6).fit(x, same)
        log_odds = model.decision_function(seen) - np.log(same.mean() / (1 - same.mean()))
        weight = np.where(truth, 0.5 / truth.mean(), 0.5 / (1 - truth.mean()))
        losses.append(log_loss(truth, 1 / (1 + np.exp(-log_odds)), sample_weight=weight))
    assert match_loss(embedding, LABELS) == pytest.approx(np.mean(losses), rel=0.02)


def test_distances_in_the_wrong_order_are_infinitely_bad() -> None:
    apart = Point(10.0 * torch.arange(60.0)[:, None])
    assert match_loss(apart, torch.arange(60) // 2 + 100 * (torch.arange(60) % 2)) == np.inf
