"""Evaluation against brute force on beliefs whose truth is known."""

import numpy as np
import pytest
import torch

from howsure import Gaussian, Matcher, Point
from howsure.bench.evaluation import evaluate, neighbours
from howsure.errors import InputError


def clusters(spread: float, *, classes: int = 5, each: int = 30, seed: int = 0) -> tuple[Point, list[str]]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, 8))
    rows = np.repeat(np.arange(classes), each)
    place = centres[rows] + spread * rng.normal(size=(len(rows), 8))
    return Point(torch.from_numpy(place)), [f"c{row}" for row in rows]


def values(belief, labels, **options) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in evaluate(belief, labels, **options)}


def test_neighbours_are_those_of_a_full_sort_without_the_query():
    belief, _ = clusters(0.5)
    near = neighbours(belief, belief, leave_one_out=True, depth=7)
    full = torch.cdist(belief.mean, belief.mean).numpy()
    np.fill_diagonal(full, np.inf)
    np.testing.assert_array_equal(near.positions, np.argsort(full, axis=1, kind="stable")[:, :7])
    np.testing.assert_allclose(near.distances, np.sort(full, axis=1)[:, :7], atol=1e-9)


def test_recall_and_map_against_loops():
    belief, labels = clusters(1.0)
    full = torch.cdist(belief.mean, belief.mean).numpy()
    np.fill_diagonal(full, np.inf)
    order = np.argsort(full, axis=1)
    names = np.array(labels)
    hit = names[order[:, :5]] == names[:, None]
    got = values(belief, labels)
    assert got["recall_at_1"] == pytest.approx(hit[:, 0].mean())
    assert got["recall_at_5"] == pytest.approx(hit.any(1).mean())
    precision = np.cumsum(hit, 1) / np.arange(1, 6)
    assert got["map_at_5"] == pytest.approx(((precision * hit).sum(1) / 5).mean())
    assert got["map_at_5_r"] == pytest.approx(((precision * hit).sum(1) / 29).mean())
    assert got["map_at_5_hits"] == pytest.approx(((precision * hit).sum(1) / np.maximum(hit.sum(1), 1)).mean())


def test_better_separated_classes_score_better_everywhere():
    near, far = (values(*clusters(spread), matcher=Matcher(2.0, 4.0, 0.5)) for spread in (0.3, 1.5))
    for name in ("recall_at_1", "map_at_10", "verification_ap", "verification_auroc", "tar_at_far_0.01"):
        assert near[name] > far[name]
    for name in ("equal_error_rate", "match_brier", "aurc_top1_distance"):
        assert near[name] < far[name]


def test_an_uncertainty_that_knows_the_errors_beats_one_that_is_constant():
    belief, labels = clusters(1.0)
    near = neighbours(belief, belief, leave_one_out=True)
    wrong = np.array(labels)[near.positions[:, 0]] != np.array(labels)
    scale = torch.from_numpy(np.where(wrong, 1e-3, 1e-4))[:, None]
    got = values(Gaussian(belief.mean, scale), labels)
    assert got["e_aurc_uncertainty"] == pytest.approx(0, abs=1e-9)
    assert values(belief, labels)["aurc_uncertainty"] is None


def test_doubt_that_predicts_errors_is_honest_and_its_opposite_is_not():
    belief, labels = clusters(1.0, each=60)
    near = neighbours(belief, belief, leave_one_out=True)
    wrong = np.array(labels)[near.positions[:, 0]] != np.array(labels)
    noise = np.random.default_rng(0).random(len(wrong))
    for sign, honest in ((1, True), (-1, False)):
        scale = torch.from_numpy(1e-4 * np.exp(sign * (wrong + noise)))[:, None]
        got = values(Gaussian(belief.mean, scale), labels)
        assert (got["r_auroc_uncertainty"] > 0.9) == honest
        assert (got["kendall_accuracy_uncertainty"] > 0.5) == honest
        assert (got["kendall_ap_uncertainty"] > 0) == honest
        assert got["r_auroc_margin"] > 0.6


def test_what_the_data_do_not_define_has_a_reason():
    belief, labels = clusters(0.01)
    rows = {metric.name: metric for metric in evaluate(belief, labels)}
    assert rows["r_auroc_margin"].value is None
    assert "only true ones" in rows["r_auroc_margin"].convention
    assert rows["kendall_accuracy_margin"].value is None
    assert "1 in all 20 bins" in rows["kendall_accuracy_margin"].convention
    assert rows["r_auroc_uncertainty"].value is None
    assert "the same for every query" in rows["r_auroc_uncertainty"].convention


def test_foreign_items_far_away_are_found_and_base_rate_is_named():
    belief, labels = clusters(0.5)
    foreign = Point(belief.mean[:50] + 20)
    rows = {metric.name: metric for metric in evaluate(belief, labels, ood=foreign)}
    assert rows["ood_auroc_top1_distance"].value == 1
    assert rows["ood_fpr95_knn50_distance"].value == 0
    assert "base rate 0.250" in rows["ood_ap_top1_distance"].convention
    assert rows["ood_auroc_uncertainty"].value is None


@pytest.mark.parametrize("labels", [["a"] * 6, ["a", "b", "c", "d", "e", "f"]])
def test_what_cannot_be_judged_is_refused(labels):
    with pytest.raises(InputError, match="two classes or more"):
        evaluate(Point(torch.randn(6, 2)), labels)
