"""Failure prediction, the same in every table."""

import json
from pathlib import Path

import numpy as np
import pytest

from howsure.evaluation.failure_prediction import FAILURE_METRICS, failure_prediction, probability_right
from howsure.metrics import augrc, aurc, kendall_over_bins, r_auroc

RESULTS = Path(__file__).parents[2] / "results"


def test_it_agrees_with_the_metrics() -> None:
    rng = np.random.default_rng(0)
    score = rng.random(400)
    right = rng.random(400) > score / 2
    found = failure_prediction(score, right)
    assert tuple(found) == FAILURE_METRICS
    assert found["aurc"] == aurc(score, ~right)
    assert found["augrc"] == augrc(score, ~right)
    assert found["r_auroc"] == r_auroc(score, right)
    assert found["kendall"] == kendall_over_bins(score, right, bins=20)


def test_what_is_not_defined_is_left_out() -> None:
    assert failure_prediction(np.arange(4.0), np.ones(4, bool)) == {"aurc": 0, "augrc": 0}


def test_the_probability_of_being_right_is_that_of_held_out_answers() -> None:
    rng = np.random.default_rng(0)
    score = rng.lognormal(size=20_000)
    right = rng.random(20_000) < 1 / (1 + score**2)  # the logistic of -2 log score
    found = probability_right([0.0, 0.5, 1.0, 2.0], held=(score, right))
    assert found == pytest.approx([1.0, 0.8, 0.5, 0.2], abs=0.02)


@pytest.mark.parametrize("table", ["fashion-mnist", "cifar10", "cub", "lfw"])
def test_the_records_agree_with_themselves(table: str) -> None:
    """AUGRC is a matter of recall and R-AUROC alone, whatever is answered."""
    files = sorted((RESULTS / table).glob("*.json"))
    assert files
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))["metrics"]
        a = found["recall_at_1"]
        for name in (name.removesuffix(".r_auroc") for name in found if name.endswith(".r_auroc")):
            expected = (1 - found[f"{name}.r_auroc"]) * a * (1 - a) + (1 - a) ** 2 / 2
            assert found[f"{name}.augrc"] == pytest.approx(expected, abs=1e-9), file.name
