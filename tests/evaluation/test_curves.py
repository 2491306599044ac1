"""Curves as a few points, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from howsure import metrics
from howsure.evaluation.curves import GRID, reliability_points, risk_points, roc_points


def test_roc_against_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    known, ood = rng.normal(size=400), rng.normal(1, 1, 300)
    got = roc_points(known, ood)
    positive, score = np.arange(700) >= 400, np.concatenate([known, ood])
    alarms, found, _ = roc_curve(positive, score, drop_intermediate=False)
    for i in (5, 20, 40):
        assert found[alarms <= GRID[i] - 0.01].max() <= got[i] <= found[alarms >= GRID[i] + 0.01].min()
    assert np.trapezoid(got, GRID) == pytest.approx(roc_auc_score(positive, score), abs=0.01)
    assert got[-1] == 1


def test_risk_at_full_coverage_is_the_error_rate() -> None:
    rng = np.random.default_rng(0)
    score, error = rng.random(500), rng.random(500) < 0.3
    got = risk_points(score, error)
    assert got[-1] == pytest.approx(error.mean(), abs=1e-5)
    assert np.mean(got) == pytest.approx(metrics.aurc(score, error), abs=0.05)


def test_reliability_keeps_every_case() -> None:
    probability = np.linspace(0, 1, 200)
    got = reliability_points(probability, probability > 0.5)
    assert sum(got["count"]) == 200
    assert len(got["count"]) == len(got["confidence"]) == len(got["accuracy"]) == 15
