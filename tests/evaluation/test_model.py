"""Evaluation against brute force on embeddings whose truth is known."""

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from howsure import Draws, Embedding, Gaussian, Matcher, Point, VonMisesFisher
from howsure.errors import InputError
from howsure.evaluation.confidence import confidence_metrics
from howsure.evaluation.model import evaluate_embeddings
from howsure.neighbours import neighbours


def clusters(scale: float, *, classes: int = 5, each: int = 30, seed: int = 0) -> tuple[Point, list[str]]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, 8))
    rows = np.repeat(np.arange(classes), each)
    mean = centres[rows] + scale * rng.normal(size=(len(rows), 8))
    return Point(torch.from_numpy(mean)), [f"c{row}" for row in rows]


def values(embedding, labels, **options) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in evaluate_embeddings(embedding, labels, **options)}


def test_recall_and_map_against_loops():
    embedding, labels = clusters(1.0)
    full = torch.cdist(embedding.mean, embedding.mean).numpy()
    np.fill_diagonal(full, np.inf)
    order = np.argsort(full, axis=1)
    names = np.array(labels)
    hit = names[order[:, :5]] == names[:, None]
    got = values(embedding, labels)
    assert got["recall_at_1"] == pytest.approx(hit[:, 0].mean())
    assert got["recall_at_5"] == pytest.approx(hit.any(1).mean())
    precision = np.cumsum(hit, 1) / np.arange(1, 6)
    assert got["map_at_5"] == pytest.approx(((precision * hit).sum(1) / 5).mean())
    assert got["map_at_5_r"] == pytest.approx(((precision * hit).sum(1) / 29).mean())
    assert got["map_at_5_hits"] == pytest.approx(((precision * hit).sum(1) / np.maximum(hit.sum(1), 1)).mean())


def test_better_separated_classes_score_better_everywhere():
    near, far = (values(*clusters(scale), matcher=Matcher(2.0, 4.0, 0.5)) for scale in (0.3, 1.5))
    for name in ("recall_at_1", "map_at_10", "verification_ap", "verification_auroc", "tar_at_far_0.01"):
        assert near[name] > far[name]
    for name in ("equal_error_rate", "match_brier", "aurc_top1_distance"):
        assert near[name] < far[name]


def test_an_uncertainty_that_knows_the_errors_beats_one_that_is_constant():
    embedding, labels = clusters(1.0)
    near = neighbours(embedding, embedding, leave_one_out=True)
    wrong = np.array(labels)[near.positions[:, 0]] != np.array(labels)
    scale = torch.from_numpy(np.where(wrong, 1e-3, 1e-4))[:, None]
    got = values(Gaussian(embedding.mean, scale), labels)
    assert got["e_aurc_uncertainty"] == pytest.approx(0, abs=1e-9)
    assert values(embedding, labels)["aurc_uncertainty"] is None


def test_uncertainty_that_predicts_errors_scores_high_and_its_opposite_low():
    embedding, labels = clusters(1.0, each=60)
    near = neighbours(embedding, embedding, leave_one_out=True)
    wrong = np.array(labels)[near.positions[:, 0]] != np.array(labels)
    noise = np.random.default_rng(0).random(len(wrong))
    for sign, predictive in ((1, True), (-1, False)):
        scale = torch.from_numpy(1e-4 * np.exp(sign * (wrong + noise)))[:, None]
        got = values(Gaussian(embedding.mean, scale), labels)
        assert (got["r_auroc_uncertainty"] > 0.9) == predictive
        assert (got["kendall_accuracy_uncertainty"] > 0.5) == predictive
        assert (got["kendall_ap_uncertainty"] > 0) == predictive
        assert got["r_auroc_margin"] > 0.6


def test_what_the_data_do_not_define_has_a_reason():
    embedding, labels = clusters(0.01)
    rows = {metric.name: metric for metric in evaluate_embeddings(embedding, labels)}
    assert rows["r_auroc_margin"].value is None
    assert "only true ones" in rows["r_auroc_margin"].convention
    assert rows["kendall_accuracy_margin"].value is None
    assert "1 in all 20 bins" in rows["kendall_accuracy_margin"].convention
    assert rows["r_auroc_uncertainty"].value is None
    assert "the same for every query" in rows["r_auroc_uncertainty"].convention


def test_ood_items_far_away_are_detected_and_base_rate_is_named():
    embedding, labels = clusters(0.5)
    others = Point(embedding.mean[:50] + 20)
    rows = {metric.name: metric for metric in evaluate_embeddings(embedding, labels, ood=others)}
    assert rows["ood_auroc_top1_distance"].value == 1
    assert rows["ood_fpr95_knn50_distance"].value == 0
    assert "base rate 0.250" in rows["ood_ap_top1_distance"].convention
    assert rows["ood_auroc_uncertainty"].value is None


@pytest.mark.parametrize("labels", [["a"] * 6, ["a", "b", "c", "d", "e", "f"]])
def test_what_cannot_be_evaluated_is_refused(labels):
    with pytest.raises(InputError, match="two classes or more"):
        evaluate_embeddings(Point(torch.randn(6, 2)), labels)


def directions(*, classes: int = 4, each: int = 100, seed: int = 0) -> tuple[VonMisesFisher, list[str]]:
    """Noisy directions around one axis a class, half of the items noisier, and they know it."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(classes), each)
    noise = np.where(rng.random(len(rows)) < 0.5, 0.2, 1.0)
    mean = torch.from_numpy(np.eye(classes)[rows] + noise[:, None] * rng.normal(size=(len(rows), classes)))
    concentration = torch.from_numpy(1 / noise**2)
    return VonMisesFisher(mean / mean.norm(dim=1, keepdim=True), concentration), [f"c{row}" for row in rows]


FREE = ("top1_distance", "margin", "knn50_distance")


def test_training_free_scores_see_point_estimates_alone():
    embedding, labels = directions()
    point = Point(embedding.direction)
    near = neighbours(point, point, leave_one_out=True)
    others = np.array(labels)
    for other in (embedding, VonMisesFisher(embedding.direction, embedding.concentration.flip(0))):
        got = values(other, labels, ood=VonMisesFisher(embedding.direction[:40].roll(1, 1), torch.ones(40).double()))
        assert got["recall_at_1_places"] == pytest.approx((others[near.positions[:, 0]] == others).mean())
        bare = values(point, labels, ood=Point(embedding.direction[:40].roll(1, 1)))
        assert all(got[f"ood_auroc_{name}"] == bare[f"ood_auroc_{name}"] for name in FREE if name != "margin")
        assert all(got[f"r_auroc_{name}_places"] == bare[f"r_auroc_{name}"] for name in FREE)


def test_certain_items_are_hubs_for_expected_distances_but_not_for_point_estimates():
    turn = torch.from_numpy(np.repeat([0.0, 1.0], 40) + np.random.default_rng(0).uniform(-0.1, 0.1, 80))
    embedding = VonMisesFisher(torch.stack([turn.cos(), turn.sin()], 1), torch.ones(80).double())
    embedding.concentration[7] = 1e4
    got = values(embedding, ["a"] * 40 + ["b"] * 40)
    assert got["recall_at_1_places"] == 1
    assert got["recall_at_1"] < 0.6  # item 7 is nearest to everything


def test_point_estimates_are_reported_where_there_is_uncertainty():
    embedding, labels = clusters(1.0)
    assert "recall_at_1_places" not in values(embedding, labels)
    uncertain: list[Embedding] = [Gaussian(embedding.mean, torch.ones(len(embedding), 1).double())]
    uncertain.append(Draws.stack([embedding, Point(embedding.mean + 0.1)]))
    for other in uncertain:  # the same uncertainty for all, so the same order
        got = values(other, labels)
        assert got["recall_at_1_places"] == got["recall_at_1"] == values(embedding, labels)["recall_at_1"]


def test_the_majority_of_five_and_its_ties():
    embedding, labels = clusters(1.2, each=60)
    full = torch.cdist(embedding.mean, embedding.mean).numpy()
    np.fill_diagonal(full, np.inf)
    near = np.array(labels)[np.argsort(full, axis=1)[:, :5]]
    majority = []
    for row in near.tolist():
        most = max(row.count(name) for name in row)
        majority.append(next(name for name in row if row.count(name) == most))
    right = np.array(majority) == np.array(labels)
    order = np.random.default_rng(1).permutation(len(labels))  # from the most certain to the least
    scale = torch.empty(len(labels), 1, dtype=torch.float64)
    scale[torch.from_numpy(order), 0] = torch.linspace(1e-7, 2e-7, len(labels), dtype=torch.float64)
    got = values(Gaussian(embedding.mean, scale), labels)
    bins = [right[part].mean() for part in np.array_split(order, 20)]
    assert got["kendall_knn5_uncertainty"] == pytest.approx(kendalltau(np.arange(20), -np.array(bins)).statistic)
    assert "kendall_knn5_margin" not in values(Point(embedding.mean[[0, 1, 60, 61]]), ["a", "a", "b", "b"])


def test_confidence_is_evaluated_as_a_probability():
    embedding, labels = directions(each=300)
    got = values(embedding, labels)
    for metric in ("ece", "brier"):
        for calibrated in ("logistic", "isotonic"):
            assert got[f"confidence_{metric}_{calibrated}"] < got[f"confidence_{metric}_raw"]
    assert not any(name.startswith("confidence") for name in values(Point(embedding.direction), labels))


def test_a_calibrated_confidence_needs_no_calibration():
    rng = np.random.default_rng(0)
    p = rng.random(40_000)
    got = {metric.name: metric.value for metric in confidence_metrics(p, rng.random(len(p)) < p, seed=0)}
    assert got["confidence_ece_raw"] < 0.02
    assert got["confidence_brier_raw"] == pytest.approx(1 / 6, abs=0.005)  # E p(1 - p)
    assert got["confidence_brier_isotonic"] == pytest.approx(1 / 6, abs=0.005)
    assert got["confidence_ece_logistic"] < 0.05
    turned = {metric.name: metric.value for metric in confidence_metrics(1 - p, rng.random(len(p)) < p, seed=0)}
    assert turned["confidence_ece_raw"] > 0.4
    assert turned["confidence_ece_logistic"] < 0.02  # no confidence at all: the base rate for everyone


def test_confidence_where_nothing_is_wrong():
    got = {metric.name: metric for metric in confidence_metrics(np.linspace(0, 1, 50), np.ones(50, bool), seed=0)}
    assert got["confidence_brier_logistic"].value is None
    assert "both kinds of outcome" in got["confidence_brier_logistic"].convention
    assert got["confidence_brier_isotonic"].value == pytest.approx(1 / 27**2)
