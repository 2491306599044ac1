import math
from pathlib import Path

import numpy as np
import pytest
import torch

from howsure.bench.experiments.centroids import SOFTMAX, Prediction, judge, ood_metrics, prediction_metrics, run, train
from howsure.bench.plan import Cell, table_named
from howsure.bench.work import Sets, Work
from howsure.data import load
from howsure.embeddings import VonMisesFisher
from howsure.errors import InputError
from howsure.recipe import recipe_for


def test_softmax_predicts_by_its_largest_probability() -> None:
    logits = torch.tensor([[1.0, 3.0, 0.5], [40.0, -40.0, 0.0]])
    predicted = Prediction.from_logits(logits)
    assert predicted.classes.tolist() == [1, 0]
    assert np.allclose(predicted.confidence, logits.double().softmax(1).amax(1))
    assert predicted.log_odds[1] == pytest.approx(40)  # where the probability is 1 to sixteen digits


def test_centroids_predict_with_the_expected_cosine() -> None:
    embedding = VonMisesFisher(torch.tensor([[1.0, 0], [0, 1.0], [0.6, 0.8]]), torch.tensor([1.1594, 4999.0, 1.1594]))
    predicted = Prediction.from_centroids(embedding, torch.eye(2).flip(0))
    assert predicted.classes.tolist() == [1, 0, 0]
    assert np.allclose(predicted.confidence, [0.5, 0.9999, 0.4], atol=1e-4)
    assert predicted.log_odds[:2] == pytest.approx([0, math.log(0.9999 / 0.0001)], rel=1e-3, abs=1e-3)
    assert predicted.log_odds[2] == pytest.approx(math.log(0.4 / 0.6), rel=1e-3)
    nothing = Prediction.from_centroids(VonMisesFisher(torch.eye(2), torch.zeros(2)), torch.eye(2))
    assert np.isfinite(nothing.log_odds).all()


def test_metrics_tell_good_confidence_from_bad() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=400)
    right = rng.random(400) < 0.8
    sure = np.where(right, 2.0, -1.0) + rng.normal(size=400)
    known = Prediction(np.where(right, labels, (labels + 1) % 3), 1 / (1 + np.exp(-sure)), sure)
    far = rng.normal(-4, 1, size=300)
    other = Prediction(np.zeros(300, int), 1 / (1 + np.exp(-far)), far)
    good = prediction_metrics(known, labels, held=(known, labels)) | ood_metrics(-known.log_odds, -other.log_odds)
    assert good["accuracy"] == right.mean()
    assert good["accuracy_at_80"] > good["accuracy"]
    assert good["auroc"] > 0.95
    assert good["fpr95"] < 0.2
    assert good["brier_calibrated"] < good["brier"]
    bad = Prediction(known.classes, 1 - known.confidence, -known.log_odds)
    worse = prediction_metrics(bad, labels, held=(bad, labels)) | ood_metrics(-bad.log_odds, far)
    assert worse["auroc"] == pytest.approx(1 - good["auroc"])
    assert worse["aurc"] > good["aurc"]
    assert worse["augrc"] > good["augrc"]
    assert worse["r_auroc"] < 0.5 < good["r_auroc"]
    assert worse["kendall"] < 0 < good["kendall"]


@pytest.fixture(scope="module")
def sets() -> Sets:
    return Sets(load("digits:train@!8,9"), load("digits:test@!8,9"), load("digits:test@8,9"))


@pytest.mark.parametrize("name", [SOFTMAX, "centroids", "centroids-ce"])
def test_metrics_are_what_was_measured(name: str, sets: Sets) -> None:
    recipe = recipe_for("digits").but(loss="centroids", epochs=2, dim=4, backbone="mlp", learning_rate=3e-3)
    contender = train(name, sets.training, recipe.but(loss_options={"every": 2}))
    metrics = judge(contender, sets)
    predicted = contender.predict(contender.embedder.encode(sets.test))
    right = predicted.classes == np.array([int(str(label)) for label in sets.test.labels])
    assert metrics["accuracy"] == pytest.approx(right.mean())
    assert metrics["accuracy"] > 0.5
    assert ("softmax" in metrics) == (name == "centroids-ce")
    assert ("accuracy_linear" in metrics) == (name != SOFTMAX)
    assert ("knn50_features" in metrics) == (name == SOFTMAX)
    if name == "centroids-ce":
        assert metrics["both"]["accuracy"] == metrics["softmax"]["accuracy"]
        assert metrics["both"]["auroc"] not in (metrics["auroc"], metrics["softmax"]["auroc"])
        assert metrics["both"]["auroc"] > 0.5
    again = train(name, sets.training, recipe.but(loss_options={"every": 2}))
    assert torch.equal(again.embedder.encode(sets.test).mean, contender.embedder.encode(sets.test).mean)


@pytest.mark.parametrize("row", ["softmax", "centroids-ce-16"])
def test_a_row_of_the_table_is_trained_and_evaluated(row: str, tmp_path: Path) -> None:
    """On small digits, with the table's own recipe."""
    table = table_named("centroids-mnist")
    small = {"training": "digits:train", "test": "digits:test", "unfamiliar": "digits:test@8,9"}
    shares: list[float] = []
    work = Work(
        table.model_copy(update={"data": small, "quick_every": 1}),
        Cell(row, (0,)),
        tmp_path,
        quick=True,
        tell=shares.append,
    )
    metrics = run(work)["metrics"]
    assert set(metrics) >= {name for column in table.columns.values() for name in column.metrics if "{" not in name}
    free = {f"{one.score}.auroc" for one in table.baselines if one.method == row}
    assert set(metrics) >= free
    assert ("softmax.auroc" in metrics) == (row == "centroids-ce-16")
    assert all(math.isfinite(value) for value in metrics.values())
    assert shares[-1] == 1


def test_an_unknown_contender(sets: Sets) -> None:
    with pytest.raises(InputError, match="softmax, centroids or centroids-ce"):
        train("point", sets.training, recipe_for("digits"))
