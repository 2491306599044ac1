import json

import numpy as np
import pytest
import torch

from howsure import Draws, Gaussian, Point
from howsure.bench.experiments.mlp import DEPTHS, DRAWS, Labelled, judge, posterior, precision, some, train, trial
from howsure.data import ImageSet, load
from howsure.embedder import Embedder
from howsure.evaluation.scores import observe
from howsure.posteriors import laplace
from howsure.recipe import recipe_for

UNSEEN = ("8", "9")


def draws_and_labels(*, items: int = 40, draws: int = 3, seed: int = 0) -> tuple[Draws, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "b", "c", "d"])[np.arange(items) % 4]
    centres = rng.normal(size=(4, 2))[np.arange(items) % 4]
    means = centres[:, None] + rng.normal(size=(items, draws, 2)) + 0.7 * rng.normal(size=(items, 1, 2))
    return Draws(Point(torch.from_numpy(means))), labels


def by_hand(means: np.ndarray, labels: np.ndarray, k: int, *, hits: bool) -> float:
    """Mean average precision at k of (N, S, D) means, one query at a time."""
    found = []
    for own in range(len(labels)):
        squared = [np.square(means[own] - means[other]).sum(-1).mean() for other in range(len(labels))]
        order = [other for other in np.argsort(squared) if other != own][:k]
        right = labels[order] == labels[own]
        total = sum(right[: i + 1].mean() for i in range(k) if right[i])
        found.append(total / max(1, right.sum() if hits else min(k, (labels == labels[own]).sum() - 1)))
    return float(np.mean(found))


def test_precision_compares_draw_by_draw_and_names_its_denominator() -> None:
    embedding, labels = draws_and_labels()
    found = precision(embedding, labels)
    for k in DEPTHS:
        assert found["hits"][str(k)] == pytest.approx(by_hand(embedding.atoms.mean.numpy(), labels, k, hits=True))
        assert found["min_rk"][str(k)] == pytest.approx(by_hand(embedding.atoms.mean.numpy(), labels, k, hits=False))
    averaged = precision(Point(embedding.mean), labels)
    assert averaged["hits"] != found["hits"]  # the mean over draws is another ranking


def test_judge_tells_the_seen_from_the_unseen() -> None:
    embedding, labels = draws_and_labels(items=80)
    means = embedding.mean
    unseen = np.isin(labels, ["c", "d"])
    scale = torch.from_numpy(np.where(unseen, 2.0, 1.0) + 0.01 * np.arange(80) / 80)[:, None]
    found = judge(Gaussian(means, scale), labels.tolist(), unseen=("c", "d"))
    assert found["scores"]["ood_auroc_uncertainty"] == 1
    assert found["auroc_of_kind"] == {"c": 1, "d": 1}
    mixed = judge(
        Gaussian(means, torch.where(torch.from_numpy(labels == "d")[:, None], 0.5, scale)),
        labels.tolist(),
        unseen=("c", "d"),
    )
    assert mixed["auroc_of_kind"] == {"c": 1, "d": 0}
    assert judge(Gaussian(means, 3 - scale), labels.tolist(), unseen=("c", "d"))["scores"]["ood_auroc_uncertainty"] == 0
    assert found["variance"]["unseen"]["median"] == pytest.approx(8, rel=0.02)  # two dimensions of 2²
    assert found["variance"]["a"]["upper"] < found["variance"]["d"]["lower"]
    points = judge(Point(means), labels.tolist(), unseen=("c", "d"))
    # a gallery of its own for each: what is unseen does not stand in the way of the seen
    assert points["map"]["seen"] == precision(Point(means[~unseen]), labels[~unseen])
    assert points["map"]["seen"]["hits"]["1"] > points["map"]["all"]["hits"]["1"]
    assert points["variance"]["all"]["mean"] == 0
    assert points["auroc_of_kind"] == {"c": None, "d": None}


def test_uncertainty_becomes_a_probability_by_held_out_pictures() -> None:
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b", "c"] * 200)
    noise = rng.uniform(0.05, 2.0, (600, 1))
    centres = {"a": (0.0, 0.0), "b": (3.0, 0.0), "c": (0.0, 3.0)}
    means = np.array([centres[label] for label in labels]) + noise * rng.normal(size=(600, 2))
    embedding = Gaussian(torch.from_numpy(means), torch.from_numpy(noise))
    shown, held = np.arange(600) < 300, np.arange(600) >= 300
    kept = held & (labels != "c")
    known = Labelled(embedding[np.flatnonzero(kept)], labels[kept])
    some_of = embedding[np.flatnonzero(shown)]
    found = judge(some_of, labels[shown].tolist(), unseen=("c",), held=known)
    right = found["map"]["seen"]["min_rk"]["1"]
    assert found["calibration"]["brier"] < right * (1 - right)  # better than the share of right answers
    assert found["calibration"]["ece"] < 0.1
    assert found["scores"]["r_auroc_uncertainty"] > 0.6
    assert found["scores"]["augrc_uncertainty"] < (1 - right) / 2  # what a random score has
    points = judge(Point(some_of.mean), labels[shown].tolist(), unseen=("c",), held=known)
    assert points["calibration"] == {} == judge(some_of, labels[shown].tolist(), unseen=("c",))["calibration"]


def test_disagreement_is_that_of_draws_and_of_neighbours() -> None:
    near_a = [[0.0, 0.0], [0.1, 0.0], [5.0, 0.0], [5.1, 0.0], [0.2, 0.0]]
    near_b = [*near_a[:4], [4.9, 0.0]]
    embedding = Draws.stack([Point(torch.tensor(means)) for means in (near_a, near_a, near_a, near_b)])
    found = Labelled(embedding, np.array(["a", "a", "b", "b", "b"]))
    assert found.right.tolist() == [True, True, True, True, False]  # the last lies with a in three of four
    assert found.by_draw[-1].tolist() == ["a", "a", "a", "b"]
    assert found.disagreement["votes"][-1] == pytest.approx(1.5 / 5)
    assert found.disagreement["votes"][0] == pytest.approx(0.5 / 5)
    assert found.disagreement["outvoted"][-1] == pytest.approx(2 / 4)


def test_disagreement_of_draws_predicts_failures_and_gives_the_probabilities() -> None:
    embedding, labels = draws_and_labels(items=160, draws=25, seed=1)
    kept = ~np.isin(labels, ["d"])
    known = Labelled(embedding[np.flatnonzero(kept)], labels[kept])
    found = judge(embedding, labels.tolist(), unseen=("d",), held=known)
    assert found["right"]["nearest"] == found["map"]["seen"]["min_rk"]["1"]
    assert found["scores"]["r_auroc_votes"] > found["scores"]["r_auroc_uncertainty"]
    assert found["calibration"]["brier"] < found["right"]["nearest"] * (1 - found["right"]["nearest"])
    alone = judge(embedding.by_draw()[0], labels.tolist(), unseen=("d",))
    assert alone["right"]["votes"] == alone["right"]["nearest"]
    assert "r_auroc_votes" not in alone["scores"]
    assert "r_auroc_outvoted" in alone["scores"]


def test_the_shown_pictures_are_always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.bench.experiments.mlp.SHOWN", 30)
    images = load("digits:test")
    chosen = some(images)
    assert chosen.ids == some(images).ids
    assert len(set(chosen.ids)) == 30
    assert chosen.ids != images.ids[:30]


@pytest.fixture(scope="module")
def pictures() -> ImageSet:
    return load("digits:train@!8,9")


@pytest.fixture(scope="module")
def network(pictures: ImageSet) -> Embedder:
    recipe = recipe_for("digits").but(backbone="mlp", dim=2, epochs=2, classes_per_batch=8)
    return train(pictures, recipe.but(loss_options={"power": 1, "neg_margin": 1.0}))


def test_means_lie_in_the_plane_not_on_the_circle(pictures: ImageSet, network: Embedder) -> None:
    assert network.encode(pictures).mean.norm(dim=-1).std() > 0.05


def test_a_trial_is_a_record_of_what_was_measured(pictures: ImageSet, network: Embedder) -> None:
    shown = load("digits:test").subset(range(0, 400, 2))
    alone = json.loads(json.dumps(trial(network, shown, unseen=UNSEEN)))
    assert alone["metrics"]["map"]["all"] == precision(network.encode(shown), [str(label) for label in shown.labels])
    assert alone["metrics"]["map"]["seen"]["min_rk"]["1"] > 0.3  # eight classes
    assert alone["features"]["map"]["all"] == precision(
        Point(observe(network, shown).features), np.array(shown.labels, str)
    )
    assert "closed_form" not in alone
    fitted = posterior(network, pictures, structure="last-full")
    many = json.loads(json.dumps(trial(fitted, shown, unseen=UNSEEN)))
    assert many["posterior"]["structure"] == "last-full"
    assert many["draws"] == DRAWS
    drawn, closed = (many[key]["variance"]["all"]["median"] for key in ("metrics", "closed_form"))
    assert drawn == pytest.approx(closed, rel=0.3)  # 100 draws of the closed form
    embedding = laplace.drawn(fitted, DRAWS).encode(shown)
    assert len(embedding.by_draw()) == DRAWS
    assert many["metrics"]["map"]["unseen"] == judge(embedding, shown.labels, unseen=UNSEEN)["map"]["unseen"]
