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
    places, _ = blobs(noise=0.8)
    scale = torch.from_numpy(np.random.default_rng(1).uniform(0.1, 1.0, (len(places), 1)))
    belief = Gaussian(places, scale)
    rows = np.arange(0, 600, 25)
    whole = expected_match_probability(MATCHER, belief[rows], belief)
    whole[torch.arange(len(rows)), torch.from_numpy(rows)] = -1
    found = nearest(belief[rows], belief, [MATCHER], own=rows)
    assert np.array_equal(found, whole.topk(10).indices.numpy())


def test_points_are_judged_as_by_a_plain_classifier() -> None:
    places, codes = blobs(noise=0.9)
    worse, _ = blobs(noise=1.4, seed=3)
    judged = judge(Point(worse), Point(places), codes, [MATCHER], seed=0)
    hits = []
    for i in range(len(codes)):
        rest = np.delete(np.arange(len(codes)), i)
        model = KNeighborsClassifier(5).fit(places[rest], codes[rest])
        hits.append(model.predict(worse[i : i + 1])[0] == codes[i])
    assert judged.knn_accuracy == pytest.approx(np.mean(hits), abs=0.02)  # they break ties of votes differently
    by_count = judged.one_side_knn_accuracy_of
    assert by_count["1"] < by_count["3"] < judged.one_side_knn_accuracy <= by_count["10"]  # blobs that overlap
    assert judged.kendall_ap is None is judged.kendall_knn


def test_honest_doubt_has_a_high_tau_and_false_doubt_a_low_one() -> None:
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.05, 2.5, 3000)
    codes = np.arange(3000) % CLASSES
    centres = 3 * np.random.default_rng(9).normal(size=(CLASSES, 2))
    clean = torch.from_numpy(centres[codes] + 0.05 * rng.normal(size=(3000, 2)))
    seen = torch.from_numpy(centres[codes] + noise[:, None] * rng.normal(size=(3000, 2)))
    gallery = Gaussian(clean, torch.full((3000, 1), 0.05, dtype=torch.float64))
    honest = judge(Gaussian(seen, torch.from_numpy(noise)[:, None]), gallery, codes, [MATCHER], seed=0)
    false = judge(Gaussian(seen, torch.from_numpy(2.6 - noise)[:, None]), gallery, codes, [MATCHER], seed=0)
    assert honest.kendall_knn is not None
    assert honest.kendall_knn > 0.8
    assert honest.kendall_ap is not None
    assert honest.kendall_ap > 0.8
    assert false.kendall_knn is not None
    assert false.kendall_knn < -0.8
    assert honest.verification_ap > false.verification_ap
    assert honest.one_side_verification_ap > false.one_side_verification_ap
    assert honest.one_side_knn_accuracy > false.one_side_knn_accuracy + 0.05
    assert honest.one_side_kendall_ap is not None
    assert honest.one_side_kendall_ap > 0.8
    assert 0 < honest.self_mismatch < 1


def test_perfect_places_are_perfect() -> None:
    places, codes = blobs(noise=0.0)
    judged = judge(Point(4 * places), Point(4 * places), codes, [MATCHER], seed=0)
    far = 1 - 1 / (1 + np.exp(-5.0))  # what a pair at one place still doubts
    assert (judged.verification_ap, judged.one_side_verification_ap) == (1, 1)
    assert (judged.knn_accuracy, judged.one_side_knn_accuracy) == (1, 1)
    assert judged.one_side_knn_accuracy_of == dict.fromkeys(("1", "3", "10"), 1.0)
    assert judged.self_mismatch == pytest.approx(far, rel=1e-4)
    assert judged.verification_ece == judged.one_side_verification_ece == pytest.approx(far / 2, rel=1e-3)
    assert judged.verification_brier == judged.one_side_verification_brier == pytest.approx(far**2 / 2, rel=1e-3)
    assert (judged.kendall_ap, judged.kendall_knn, judged.doubt) == (None, None, {})
    assert judged.disagreement == {"aurc": 0, "augrc": 0}  # no wrong answer to foresee


def test_members_answer_in_their_own_geometry() -> None:
    """A member that is turned and stretched, with the link of its stretched distances, says what it said before."""
    places, codes = blobs(noise=0.9)
    scale = torch.from_numpy(np.random.default_rng(1).uniform(0.1, 1.0, (len(places), 1)))
    one = Gaussian(places, scale)
    turn = torch.tensor([[0.0, 3.0], [-3.0, 0.0]], dtype=places.dtype)
    links = [MATCHER, Matcher(scale=MATCHER.scale / 3, offset=MATCHER.offset, base_rate=0.5)]
    two = Draws(Gaussian(torch.stack([places, places @ turn], 1), torch.stack([scale, 3 * scale], 1)))
    alone, together = judge(one, one, codes, [MATCHER], seed=0), judge(two, two, codes, links, seed=0)
    same = judge(Draws(Gaussian(places[:, None], scale[:, None])), one, codes, [MATCHER], seed=0)
    assert same.verification_ap == pytest.approx(alone.verification_ap)
    twice = Draws(Gaussian(torch.stack([places] * 2, 1), torch.stack([scale] * 2, 1)))
    assert judge(twice, twice, codes, [MATCHER], seed=0).knn_accuracy == alone.knn_accuracy  # one link for all draws
    for name in ("verification_ap", "verification_brier", "knn_accuracy", "kendall_knn", "self_mismatch"):
        assert getattr(together, name) == pytest.approx(getattr(alone, name), abs=1e-6)
    assert together.doubt == pytest.approx(alone.doubt, abs=1e-6)


def test_doubts_foresee_wrong_answers() -> None:
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.05, 2.5, 1200)
    codes = np.arange(1200) % CLASSES
    centres = 3 * np.random.default_rng(9).normal(size=(CLASSES, 2))
    clean = Gaussian(torch.from_numpy(centres[codes]), torch.full((1200, 1), 0.05, dtype=torch.float64))
    seen = torch.from_numpy(centres[codes] + noise[:, None] * rng.normal(size=(1200, 2)))
    judged = judge(Gaussian(seen, torch.from_numpy(noise)[:, None]), clean, codes, [MATCHER], seed=0)
    assert judged.doubt["r_auroc"] > 0.7
    assert judged.top1_distance["r_auroc"] > 0.6  # far from every class, where classes are points


def test_a_model_without_a_link_is_refused() -> None:
    embedder = Embedder("n-digit", "point", InputSpec(28, 56, 1, (0.0,), (1.0,)), dim=2)
    with pytest.raises(InputError, match="no link"):
        judge_all(embedder, "number-test-seen", digits=2)


def test_average_precision_is_over_balanced_pairs() -> None:
    places, codes = blobs(noise=1.0)
    near = judge(Point(places), Point(places), codes, [MATCHER], seed=0).verification_ap
    distance = torch.cdist(places, places)
    first, second = np.triu_indices(len(codes), 1)
    same = codes[first] == codes[second]
    keep = np.concatenate(
        [np.flatnonzero(same), np.random.default_rng(0).choice(np.flatnonzero(~same), same.sum(), replace=False)]
    )
    whole = verification_ap(same[keep], -distance[first, second].numpy()[keep]).value
    assert near == pytest.approx(whole, abs=0.02)
