import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from howsure import Draws, Gaussian, Point
from howsure.bench.experiments.n_digit import judge, judge_all, nearest
from howsure.data import InputSpec
from howsure.embedder import Embedder
from howsure.errors import InputError
from howsure.match import Matcher, expected_match_probability
from howsure.metrics import verification_ap

MATCHER = Matcher(scale=5.0, offset=5.0, base_rate=0.5)
CLASSES = 6


def blobs(*, count: int = 600, noise: float, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = np.arange(count) % CLASSES
    centres = 3 * np.random.default_rng(9).normal(size=(CLASSES, 2))
    return torch.from_numpy(centres[codes] + noise * rng.normal(size=(count, 2))), codes


def test_nearest_is_the_full_ranking_by_match_probability() -> None:
    means, _ = blobs(noise=0.8)
    scale = torch.from_numpy(np.random.default_rng(1).uniform(0.1, 1.0, (len(means), 1)))
    embedding = Gaussian(means, scale)
    rows = np.arange(0, 600, 25)
    whole = expected_match_probability(MATCHER, embedding[rows], embedding)
    whole[torch.arange(len(rows)), torch.from_numpy(rows)] = -1
    found = nearest(embedding[rows], embedding, [MATCHER], own=rows)
    assert np.array_equal(found, whole.topk(10).indices.numpy())


def test_points_are_classified_as_by_a_plain_classifier() -> None:
    means, codes = blobs(noise=0.9)
    worse, _ = blobs(noise=1.4, seed=3)
    found = judge(Point(worse), Point(means), codes, [MATCHER])
    hits = []
    for i in range(len(codes)):
        rest = np.delete(np.arange(len(codes)), i)
        model = KNeighborsClassifier(5).fit(means[rest], codes[rest])
        hits.append(model.predict(worse[i : i + 1])[0] == codes[i])
    assert found["knn_accuracy"] == pytest.approx(np.mean(hits), abs=0.02)  # they break ties differently
    by_count = found["one_side_knn_accuracy_of"]
    assert by_count["1"] < by_count["3"] < found["one_side_knn_accuracy"] <= by_count["10"]  # blobs that overlap
    assert found["kendall_ap"] is None is found["kendall_knn"]


def test_uncertainty_that_predicts_errors_has_a_high_tau_and_its_opposite_a_low_one() -> None:
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.05, 2.5, 3000)
    codes = np.arange(3000) % CLASSES
    centres = 3 * np.random.default_rng(9).normal(size=(CLASSES, 2))
    clean = torch.from_numpy(centres[codes] + 0.05 * rng.normal(size=(3000, 2)))
    seen = torch.from_numpy(centres[codes] + noise[:, None] * rng.normal(size=(3000, 2)))
    gallery = Gaussian(clean, torch.full((3000, 1), 0.05, dtype=torch.float64))
    good = judge(Gaussian(seen, torch.from_numpy(noise)[:, None]), gallery, codes, [MATCHER])
    bad = judge(Gaussian(seen, torch.from_numpy(2.6 - noise)[:, None]), gallery, codes, [MATCHER])
    assert good["kendall_knn"] is not None
    assert good["kendall_knn"] > 0.8
    assert good["kendall_ap"] is not None
    assert good["kendall_ap"] > 0.8
    assert bad["kendall_knn"] is not None
    assert bad["kendall_knn"] < -0.8
    assert good["verification_ap"] > bad["verification_ap"]
    assert good["one_side_verification_ap"] > bad["one_side_verification_ap"]
    assert good["one_side_knn_accuracy"] > bad["one_side_knn_accuracy"] + 0.05
    assert good["one_side_kendall_ap"] is not None
    assert good["one_side_kendall_ap"] > 0.8
    assert 0 < good["self_mismatch"] < 1


def test_perfect_means_are_perfect() -> None:
    means, codes = blobs(noise=0.0)
    found = judge(Point(4 * means), Point(4 * means), codes, [MATCHER])
    far = 1 - 1 / (1 + np.exp(-5.0))  # 1 - P(match) at distance 0
    assert (found["verification_ap"], found["one_side_verification_ap"]) == (1, 1)
    assert (found["knn_accuracy"], found["one_side_knn_accuracy"]) == (1, 1)
    assert found["one_side_knn_accuracy_of"] == dict.fromkeys(("1", "3", "10"), 1.0)
    assert found["self_mismatch"] == pytest.approx(far, rel=1e-4)
    assert found["verification_ece"] == found["one_side_verification_ece"] == pytest.approx(far / 2, rel=1e-3)
    assert found["verification_brier"] == found["one_side_verification_brier"] == pytest.approx(far**2 / 2, rel=1e-3)
    assert (found["kendall_ap"], found["kendall_knn"], found["doubt"]) == (None, None, {})
    assert found["disagreement"] == {"aurc": 0, "augrc": 0}  # no failure to predict


def test_members_answer_in_their_own_geometry() -> None:
    """A member that is turned and stretched, with the link of its stretched distances, gives the same answers."""
    means, codes = blobs(noise=0.9)
    scale = torch.from_numpy(np.random.default_rng(1).uniform(0.1, 1.0, (len(means), 1)))
    one = Gaussian(means, scale)
    turn = torch.tensor([[0.0, 3.0], [-3.0, 0.0]], dtype=means.dtype)
    links = [MATCHER, Matcher(scale=MATCHER.scale / 3, offset=MATCHER.offset, base_rate=0.5)]
    two = Draws(Gaussian(torch.stack([means, means @ turn], 1), torch.stack([scale, 3 * scale], 1)))
    alone, ensemble = judge(one, one, codes, [MATCHER]), judge(two, two, codes, links)
    same = judge(Draws(Gaussian(means[:, None], scale[:, None])), one, codes, [MATCHER])
    assert same["verification_ap"] == pytest.approx(alone["verification_ap"])
    twice = Draws(Gaussian(torch.stack([means] * 2, 1), torch.stack([scale] * 2, 1)))
    assert judge(twice, twice, codes, [MATCHER])["knn_accuracy"] == alone["knn_accuracy"]  # one link for all draws
    for name in ("verification_ap", "verification_brier", "knn_accuracy", "kendall_knn", "self_mismatch"):
        assert ensemble[name] == pytest.approx(alone[name], abs=1e-6)
    assert ensemble["doubt"] == pytest.approx(alone["doubt"], abs=1e-6)


def test_self_mismatch_predicts_failures() -> None:
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.05, 2.5, 1200)
    codes = np.arange(1200) % CLASSES
    centres = 3 * np.random.default_rng(9).normal(size=(CLASSES, 2))
    clean = Gaussian(torch.from_numpy(centres[codes]), torch.full((1200, 1), 0.05, dtype=torch.float64))
    seen = torch.from_numpy(centres[codes] + noise[:, None] * rng.normal(size=(1200, 2)))
    found = judge(Gaussian(seen, torch.from_numpy(noise)[:, None]), clean, codes, [MATCHER])
    assert found["doubt"]["r_auroc"] > 0.7
    assert found["top1_distance"]["r_auroc"] > 0.6  # far from every class, where classes are points


def test_a_model_without_a_link_is_refused() -> None:
    embedder = Embedder("n-digit", "point", InputSpec(28, 56, 1, (0.0,), (1.0,)), dim=2)
    with pytest.raises(InputError, match="no link"):
        judge_all(embedder, "number-test-seen", digits=2)


def test_average_precision_is_over_balanced_pairs() -> None:
    means, codes = blobs(noise=1.0)
    near = judge(Point(means), Point(means), codes, [MATCHER])["verification_ap"]
    distance = torch.cdist(means, means)
    first, second = np.triu_indices(len(codes), 1)
    same = codes[first] == codes[second]
    keep = np.concatenate(
        [np.flatnonzero(same), np.random.default_rng(0).choice(np.flatnonzero(~same), same.sum(), replace=False)]
    )
    whole = verification_ap(same[keep], -distance[first, second].numpy()[keep]).value
    assert near == pytest.approx(whole, abs=0.02)
