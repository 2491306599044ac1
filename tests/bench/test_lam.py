"""The experiment of the Laplacian metric learner, on digits of eight by eight pixels."""

import numpy as np
import pytest
import torch
from sklearn.covariance import EmpiricalCovariance
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from howsure import data
from howsure.bench.experiments.lam import _disagreement, judge, uncertainty_scores, variances
from howsure.bench.work import Sets
from howsure.data import ArrayImages, validation_split
from howsure.embedder import Embedder
from howsure.embeddings import Draws, NovelGaussian, Point
from howsure.evaluation.scores import FAR, Observed, observe
from howsure.posteriors import dropout, ensemble, laplace
from howsure.recipe import recipe_for
from howsure.training import run_training


@pytest.fixture(scope="module")
def sets() -> Sets:
    digits = data.load("digits")
    rows = np.arange(len(digits))
    noise = np.random.default_rng(0).integers(0, 256, (200, 8, 8)).astype(np.uint8)
    ood = ArrayImages("noise", tuple(f"n{i}" for i in range(200)), (None,) * 200, noise)
    return Sets(digits.subset(rows[rows % 3 > 0]), digits.subset(rows[rows % 3 == 0]), ood)


@pytest.fixture(scope="module")
def embedder(sets: Sets) -> Embedder:
    recipe = recipe_for("digits").but(backbone="mlp", epochs=3, dim=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("howsure.posteriors.laplace.learned_variance.STEPS", 50)
        return laplace.fit(run_training(sets.training, recipe).embedder, sets.training)


@pytest.fixture(scope="module")
def found(embedder: Embedder, sets: Sets) -> dict[str, float]:
    return judge(embedder, sets)["metrics"]


def test_what_is_known_of_digits_and_noise(found: dict[str, float], embedder: Embedder, sets: Sets) -> None:
    assert all(np.isfinite(value) for value in found.values())
    assert 0.5 < found["recall_at_1"] <= 1
    assert found["map_at_10"] <= found["map_at_5"] <= found["recall_at_1"]
    assert found["novelty.auroc"] == pytest.approx(found["variance.two_sided.auroc"], abs=1e-3)
    assert found["knn50_features.auroc"] > 0.8
    assert found["top1_distance.r_auroc"] == pytest.approx(1 - backwards(embedder, sets), abs=1e-9)
    assert 0.5 < found["beliefs.recall_at_1"] <= 1
    assert 0 <= found["ambiguity.r_auroc_beliefs"] <= 1
    assert found["ausc"] == pytest.approx(1 - found["ambiguity.aurc"])
    assert 0 <= found["votes.ece"] <= 1
    assert found["ece"] < 0.2


def backwards(embedder: Embedder, sets: Sets) -> float:
    """AUROC of the distance to the nearest training picture for the answers that are right, by hand."""
    training, test = (observe(embedder, images) for images in (sets.training, sets.test))
    rows, _ = validation_split(sets.training, share=0.1, seed=0)
    score = torch.cdist(test.points.mean, training.points.mean[rows]).min(1).values.numpy()
    gaps = torch.cdist(test.points.mean, test.points.mean).fill_diagonal_(torch.inf)
    return float(roc_auc_score(test.labels[gaps.argmin(1).numpy()] == test.labels, score))


def test_points_have_no_uncertainty(found: dict[str, float], embedder: Embedder, sets: Sets) -> None:
    plain = judge(embedder.with_head(embedder.head.single), sets)["metrics"]
    assert not any(name.startswith(("ambiguity", "novelty", "variance", "votes", "ausc")) for name in plain)
    assert plain["recall_at_1"] == found["recall_at_1"]


def test_baselines_against_scikit_learn(embedder: Embedder) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    anchors = rng.normal(size=(300, 6)) + 4 * np.eye(6)[labels]
    queries = rng.normal(size=(40, 6))

    def observed(rows: np.ndarray, names: np.ndarray) -> Observed:
        return Observed(Point(torch.from_numpy(rows[:, :3])), torch.from_numpy(rows), names.astype(str))

    scores = uncertainty_scores(embedder.with_head(embedder.head.single), observed(anchors, labels))
    got = {name: score(observed(queries, np.zeros(40))).numpy() for name, score in scores.items()}
    near = NearestNeighbors(n_neighbors=FAR).fit(anchors[:, :3]).kneighbors(queries[:, :3])[0]
    np.testing.assert_allclose(got["top1_distance"], near[:, 0])
    np.testing.assert_allclose(got["knn50_embedding"], near[:, -1])
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (anchors, queries)]
    far = NearestNeighbors(n_neighbors=FAR).fit(unit[0]).kneighbors(unit[1])[0][:, -1]
    np.testing.assert_allclose(got["knn50_features"], far, rtol=1e-6)
    means = np.stack([anchors[labels == label].mean(0) for label in range(3)])
    within = EmpiricalCovariance(assume_centered=True).fit(anchors - means[labels])
    wanted = np.sqrt([min(within.mahalanobis((query - mean)[None])[0] for mean in means) for query in queries])
    np.testing.assert_allclose(got["mahalanobis"], wanted, rtol=1e-3)
    assert got["feature_norm"][0] == pytest.approx(-np.linalg.norm(queries[0]))


def test_features_are_those_of_the_embeddings(embedder: Embedder, sets: Sets) -> None:
    seen = observe(embedder, sets.test)
    assert torch.allclose(embedder.head(seen.features[:10]).mean, seen.embedding[:10].mean, atol=1e-6)
    assert seen.labels.tolist() == list(sets.test.labels)


def test_one_network_of_many_gives_the_features(embedder: Embedder, sets: Sets) -> None:
    plain = embedder.with_head(embedder.head.single)
    other = run_training(sets.training, recipe_for("digits").but(backbone="mlp", epochs=1, dim=3, seed=1)).embedder
    some = sets.test.subset(range(40))
    wanted = observe(plain, some).features
    members = observe(ensemble.fit([plain, other], sets.test), some)
    assert torch.equal(members.features, wanted)
    assert len(members.embedding.by_draw()) == 2
    dropped = observe(dropout.fit(plain, 4, rate=0.5), some)
    kept = dropped.features != 0
    assert torch.allclose(dropped.features[kept], 2 * wanted[kept])


def test_an_ensemble_is_evaluated_like_one_network(embedder: Embedder, sets: Sets) -> None:
    found = judge(dropout.fit(embedder.with_head(embedder.head.single), 4), sets)
    assert all(np.isfinite(value) for value in found["metrics"].values())
    assert {"ambiguity.auroc", "ambiguity.r_auroc", "ausc_lam", "ece", "votes.ece"} <= set(found["metrics"])
    assert found["metrics"]["base_rate"] == pytest.approx(200 / (200 + len(sets.test)))
    assert set(found["curves"]) == {"roc", "risk", "reliability"}
    heights = found["curves"]["roc"]["ambiguity"]
    assert np.mean(heights) == pytest.approx(found["metrics"]["ambiguity.auroc"], abs=0.02)
    assert sum(found["curves"]["reliability"]["count"]) == len(sets.test)


def test_an_ensemble_of_posteriors_is_evaluated_by_its_members_variances_too(embedder: Embedder, sets: Sets) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("howsure.posteriors.laplace.learned_variance.STEPS", 50)
        recipe = recipe_for("digits").but(backbone="mlp", epochs=3, dim=3, seed=1)
        other = laplace.fit(run_training(sets.training, recipe).embedder, sets.training)
    members = ensemble.fit([embedder, other], sets.training)
    members.card["recipe"] = embedder.card["recipe"]
    seen = observe(members, sets.test)
    one, two = seen.embedding.by_draw()
    assert torch.allclose(variances(seen)["members"], (one.variance + two.variance) / 2)
    assert (
        variances(seen)["ambiguity"] >= variances(seen)["members"]
    ).all()  # which is without the disagreement between them
    found = judge(members, sets)
    assert found["metrics"]["members.ausc"] == pytest.approx(1 - found["metrics"]["members.aurc"])
    assert {"members.ausc_lam", "members.ece", "members.brier", "members.r_auroc", "ambiguity.r_auroc"} <= set(
        found["metrics"]
    )
    assert set(found["curves"]["risk"]) >= {"members", "ambiguity", "panel"}
    assert found["metrics"]["panel.ausc"] == pytest.approx(1 - found["metrics"]["panel.aurc"])
    assert found["metrics"]["panel.r_auroc"] > 0.5
    assert {"panel.ece", "panel.brier", "outvoted.augrc"} <= set(found["metrics"])


def test_disagreement_comes_before_variance() -> None:
    """Eleven of a on the left, eleven of b on the right, and one b that only the third network puts there."""
    labels = np.array(["a"] * 11 + ["b"] * 12)
    left, right = torch.linspace(0, 1, 11), torch.linspace(9, 10, 11)
    networks = [torch.cat([left, right, torch.tensor([last])])[:, None] for last in (0.55, 0.55, 9.55)]
    scale = torch.linspace(0.5, 0.1, 23)[:, None]
    embedding = Draws.stack([NovelGaussian(means, scale, torch.zeros(23)) for means in networks])
    seen = Observed(embedding, torch.zeros(23, 1), labels)
    answers = np.array(["a"] * 11 + ["b"] * 11 + ["a"])
    score, probability = _disagreement(seen, answers, seen, answers)
    others = np.floor(score).astype(int)
    assert others.tolist() == [2] * 11 + [0] * 11 + [10]  # of thirty; the stray one lies among a in two networks
    assert (np.diff(score[:11]) < 0).all()  # the rest is the order of their own variances
    assert probability.argmin() == 22
    points = Observed(Draws.stack([Point(draw.mean) for draw in embedding.by_draw()]), seen.features, labels)
    assert (np.floor(_disagreement(points, answers, points, answers)[0]) == others).all()
