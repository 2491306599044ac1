"""Episodes and their metrics, on embeddings whose answer is known."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.neighbors import NearestCentroid

from howsure.bench.experiments import few_shot
from howsure.bench.experiments.few_shot import Pool, episodes, judge
from howsure.bench.plan import Cell, table_named
from howsure.bench.work import Work
from howsure.embeddings import Draws, Embedding, Gaussian, Point
from howsure.errors import InputError

CLASSES, EACH = 25, 12
CODES = np.repeat(np.arange(CLASSES), EACH)


def embedding(scale: np.ndarray, *, seed: int = 0, dim: int = 6) -> Gaussian:
    """Pictures around 25 class centres, each as far off as its scale says."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(CLASSES, dim))
    mean = centres[CODES] + scale[:, None] * rng.normal(size=(len(CODES), dim))
    return Gaussian(torch.from_numpy(mean), torch.from_numpy(scale[:, None]))


def pool(*, seed: int = 0, points: bool = False) -> Pool:
    rng = np.random.default_rng(seed)
    good: Embedding = embedding(rng.uniform(0.1, 0.4, len(CODES)), seed=seed)
    poor: Embedding = embedding(np.full(len(CODES), 4.0), seed=seed + 1)
    return Pool(Point(good.mean), CODES, Point(poor.mean)) if points else Pool(good, CODES, poor)


def test_an_episode_is_of_some_classes_and_its_queries_are_not_in_its_support() -> None:
    first, *_ = drawn = list(episodes(CODES, 5, 3, count=4, seed=0))
    for episode in drawn:
        assert episode.support.shape == (5, 3)
        assert episode.query.shape == (5, 9)  # a class has twelve
        assert not set(episode.support.ravel()) & set(episode.query.ravel())
        rows = np.concatenate([episode.support, episode.query], 1)
        assert (CODES[rows] == CODES[rows][:, :1]).all()
        assert len(set(CODES[rows][:, 0])) == 5
    again, *_ = episodes(CODES, 5, 3, count=4, seed=0)
    assert (again.query == first.query).all()
    other, *_ = episodes(CODES, 5, 3, count=4, seed=1)
    assert (other.query != first.query).any()


@pytest.mark.parametrize(("way", "shots"), [(26, 1), (5, 12)])
def test_too_few_classes_or_pictures_are_refused(way: int, shots: int) -> None:
    with pytest.raises(InputError, match="pictures of episodes"):
        next(episodes(CODES, way, shots, count=1, seed=0))


def test_the_plain_rule_is_that_of_the_nearest_centroid() -> None:
    known = pool()
    mean = known.embedding.mean.numpy()
    right = []
    for episode in episodes(CODES, 5, 5, count=20, seed=0):
        rule = NearestCentroid().fit(mean[episode.support.ravel()], np.repeat(np.arange(5), 5))
        right.append(np.mean(rule.predict(mean[episode.query.ravel()]) == np.repeat(np.arange(5), 7)))
    assert judge(known, known, count=20)["5-way.5-shot.plain.accuracy"] == pytest.approx(np.mean(right))


def test_members_are_averaged_over_distances_and_log_likelihoods() -> None:
    members = [embedding(np.full(len(CODES), scale), seed=seed) for seed, scale in enumerate((0.2, 0.3, 0.4))]
    ensemble = Draws.stack(members)
    episode = next(episodes(CODES, 5, 3, count=1, seed=0))
    averaged = few_shot._episode_scores(Pool(ensemble, CODES, ensemble), episode, corrupt=False)
    alone = [few_shot._episode_scores(Pool(member, CODES, member), episode, corrupt=False) for member in members]
    for rule, score in averaged.items():
        assert torch.allclose(score, torch.stack([one[rule] for one in alone]).mean(0))


def test_the_likelihood_is_that_of_the_product() -> None:
    known = pool()
    episode = next(episodes(CODES, 5, 2, count=1, seed=0))
    got = few_shot._episode_scores(known, episode, corrupt=False)["likelihood"].numpy()
    mean, variance = known.embedding.mean.numpy(), known.embedding.variance.numpy()[:, 0]
    for row, of in ((0, 3), (4, 1)):
        a, b = episode.support[of]
        fused = 1 / (1 / variance[a] + 1 / variance[b])
        centre = fused * (mean[a] / variance[a] + mean[b] / variance[b])
        query = episode.query[row, 2]
        wanted = multivariate_normal(centre, fused + variance[query]).logpdf(mean[query])
        assert got[row, 2, of] == pytest.approx(wanted)


def test_weights_help_where_some_pictures_are_corrupted_and_uncertain() -> None:
    found = judge(pool(seed=1), pool(), count=40)
    for way in (5, 20):
        under = f"{way}-way.5-shot-poor"
        assert found[f"{under}.weighted.accuracy"] > found[f"{under}.plain.accuracy"] + 0.05
        gain = found[f"{under}.gain.weighted.mean"]
        assert gain == pytest.approx(found[f"{under}.weighted.accuracy"] - found[f"{under}.plain.accuracy"])
        assert gain > found[f"{under}.gain.weighted.interval"] > 0
        # One picture of each class leaves nothing to weigh.
        assert found[f"{way}-way.1-shot.weighted.accuracy"] == found[f"{way}-way.1-shot.plain.accuracy"]
    assert found["5-way.1-shot.plain.accuracy"] > found["20-way.1-shot.plain.accuracy"]
    assert found["20-way.5-shot.plain.accuracy"] > found["20-way.1-shot.plain.accuracy"]
    assert found["5-way.1-shot.likelihood.ece"] < 0.06


def test_points_have_the_plain_rule_alone() -> None:
    found = judge(pool(points=True), pool(points=True), count=5)
    assert "5-way.5-shot-poor.plain.accuracy" in found
    assert not any("weighted" in name or "likelihood" in name for name in found)


def test_scores_that_are_log_probabilities_need_no_temperature() -> None:
    torch.manual_seed(0)
    probability = torch.distributions.Dirichlet(torch.ones(4)).sample((3000,))
    classes = torch.multinomial(probability, 1)[:, 0]
    # (episodes, way, queries, way): as many of each class as the rarest has
    least = int(classes.bincount().min())
    scores = torch.stack([probability[classes == code][:least] for code in range(4)]).log()[None]
    assert few_shot._temperature(scores) == pytest.approx(1, abs=0.1)
    assert few_shot._temperature(3 * scores) == pytest.approx(3, abs=0.3)


TABLE = """
title = "Digits"
source = "nothing"
experiment = "few-shot"
recipe = "small"
seeds = [0]
quick_every = 2
data = { training = "digits:train@0,1,2,3", validation = "digits:train@4,5,6", test = "digits:test@7,8,9" }
[columns.first]
words = "accuracy"
metrics = ["3-way.1-shot.plain.accuracy"]
better = "high"
convention = "600 episodes"
[rows.hedged]
words = "Hedged"
"""
RECIPES = 'extends = "digits"\n[base]\nbackbone = "mlp"\ndim = 3\nepochs = 1\n[methods.hedged]\nmethod = "hedged"\n'


def test_pictures_go_in_and_numbers_come_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "small.toml").write_text(TABLE)
    (tmp_path / "recipes" / "small.toml").write_text(RECIPES)
    monkeypatch.setattr(few_shot, "WAYS", (3,))
    monkeypatch.setattr(few_shot, "FEW", 8)
    work = Work(table_named(tmp_path / "small.toml"), Cell("hedged", (0,)), tmp_path / "results", quick=True)
    found = few_shot.run(work)["metrics"]
    assert all(np.isfinite(value) for value in found.values())
    assert found["3-way.5-shot.plain.accuracy"] > 0.4
    assert found == few_shot.run(work)["metrics"]
