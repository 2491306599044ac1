import json

import numpy as np
import pytest
import torch

from howsure import Draws, Gaussian, Point
from howsure.bench.experiments.centroids import encoded
from howsure.bench.experiments.mlp import DEPTHS, DRAWS, Beliefs, judge, posterior, precision, some, trained, trial
from howsure.bench.report.ood_figure import unseen_figure
from howsure.data import ImageSet, load
from howsure.embedder import Embedder
from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.plots.outlines import map_plane, outlines
from howsure.posteriors import laplace
from howsure.recipe import recipe_for

UNSEEN = ("8", "9")


def draws_and_labels(*, items: int = 40, draws: int = 3, seed: int = 0) -> tuple[Draws, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "b", "c", "d"])[np.arange(items) % 4]
    centres = rng.normal(size=(4, 2))[np.arange(items) % 4]
    places = centres[:, None] + rng.normal(size=(items, draws, 2)) + 0.7 * rng.normal(size=(items, 1, 2))
    return Draws(Point(torch.from_numpy(places))), labels


def by_hand(places: np.ndarray, labels: np.ndarray, k: int, *, hits: bool) -> float:
    """Mean average precision at k of (N, S, D) places, one query at a time."""
    found = []
    for own in range(len(labels)):
        squared = [np.square(places[own] - places[other]).sum(-1).mean() for other in range(len(labels))]
        order = [other for other in np.argsort(squared) if other != own][:k]
        right = labels[order] == labels[own]
        total = sum(right[: i + 1].mean() for i in range(k) if right[i])
        found.append(total / max(1, right.sum() if hits else min(k, (labels == labels[own]).sum() - 1)))
    return float(np.mean(found))


def test_precision_compares_draw_by_draw_and_names_its_denominator() -> None:
    belief, labels = draws_and_labels()
    found = precision(belief, labels)
    for k in DEPTHS:
        assert found["hits"][str(k)] == pytest.approx(by_hand(belief.atoms.mean.numpy(), labels, k, hits=True))
        assert found["min_rk"][str(k)] == pytest.approx(by_hand(belief.atoms.mean.numpy(), labels, k, hits=False))
    averaged = precision(Point(belief.mean), labels)
    assert averaged["hits"] != found["hits"]  # the mean of the places is another ranking


def test_judge_tells_the_seen_from_the_unseen() -> None:
    belief, labels = draws_and_labels(items=80)
    places = belief.mean
    foreign = np.isin(labels, ["c", "d"])
    scale = torch.from_numpy(np.where(foreign, 2.0, 1.0) + 0.01 * np.arange(80) / 80)[:, None]
    told = judge(Gaussian(places, scale), labels.tolist(), unseen=("c", "d"))
    assert told["scores"]["ood_auroc_uncertainty"] == 1
    assert told["auroc_of_kind"] == {"c": 1, "d": 1}
    mixed = judge(
        Gaussian(places, torch.where(torch.from_numpy(labels == "d")[:, None], 0.5, scale)),
        labels.tolist(),
        unseen=("c", "d"),
    )
    assert mixed["auroc_of_kind"] == {"c": 1, "d": 0}
    assert (
        judge(Gaussian(places, 3 - scale), labels.tolist(), unseen=("c", "d"))["scores"]["ood_auroc_uncertainty"] == 0
    )
    assert told["variance"]["unseen"]["median"] == pytest.approx(8, rel=0.02)  # two dimensions of 2²
    assert told["variance"]["a"]["upper"] < told["variance"]["d"]["lower"]
    points = judge(Point(places), labels.tolist(), unseen=("c", "d"))
    # a gallery of its own for each: what is unseen does not stand in the way of the seen
    assert points["map"]["seen"] == precision(Point(places[~foreign]), labels[~foreign])
    assert points["map"]["seen"]["hits"]["1"] > points["map"]["all"]["hits"]["1"]
    assert points["variance"]["all"]["mean"] == 0
    assert points["auroc_of_kind"] == {"c": None, "d": None}


def test_doubts_become_probabilities_by_pictures_that_were_held_out() -> None:
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b", "c"] * 200)
    noise = rng.uniform(0.05, 2.0, (600, 1))
    centres = {"a": (0.0, 0.0), "b": (3.0, 0.0), "c": (0.0, 3.0)}
    places = np.array([centres[label] for label in labels]) + noise * rng.normal(size=(600, 2))
    belief = Gaussian(torch.from_numpy(places), torch.from_numpy(noise))
    shown, held = np.arange(600) < 300, np.arange(600) >= 300
    kept = held & (labels != "c")
    known = Beliefs(belief[np.flatnonzero(kept)], labels[kept])
    some_of = belief[np.flatnonzero(shown)]
    told = judge(some_of, labels[shown].tolist(), unseen=("c",), held=known)
    right = told["map"]["seen"]["min_rk"]["1"]
    assert told["calibration"]["brier"] < right * (1 - right)  # better than the share of right answers
    assert told["calibration"]["ece"] < 0.1
    assert told["scores"]["r_auroc_uncertainty"] > 0.6
    assert told["scores"]["augrc_uncertainty"] < (1 - right) / 2  # what a doubt that knows nothing has
    points = judge(Point(some_of.mean), labels[shown].tolist(), unseen=("c",), held=known)
    assert points["calibration"] == {} == judge(some_of, labels[shown].tolist(), unseen=("c",))["calibration"]


def test_draws_vote_on_what_the_nearest_is() -> None:
    near_a = [[0.0, 0.0], [0.1, 0.0], [5.0, 0.0], [5.1, 0.0], [0.2, 0.0]]
    near_b = [*near_a[:4], [4.9, 0.0]]
    belief = Draws.stack([Point(torch.tensor(places)) for places in (near_a, near_a, near_a, near_b)])
    told = Beliefs(belief, np.array(["a", "a", "b", "b", "b"]))
    assert told.right.tolist() == [True, True, True, True, False]  # the last lies with a in three of four
    assert told.votes[-1].tolist() == ["a", "a", "a", "b"]
    assert told.doubts["votes"][-1] == pytest.approx(1.5 / 5)
    assert told.doubts["votes"][0] == pytest.approx(0.5 / 5)
    assert told.doubts["outvoted"][-1] == pytest.approx(2 / 4)


def test_votes_foresee_wrong_answers_and_give_the_probabilities() -> None:
    belief, labels = draws_and_labels(items=160, draws=25, seed=1)
    kept = ~np.isin(labels, ["d"])
    known = Beliefs(belief[np.flatnonzero(kept)], labels[kept])
    told = judge(belief, labels.tolist(), unseen=("d",), held=known)
    assert told["right"]["nearest"] == told["map"]["seen"]["min_rk"]["1"]
    assert told["scores"]["r_auroc_votes"] > told["scores"]["r_auroc_uncertainty"]
    assert told["calibration"]["brier"] < told["right"]["nearest"] * (1 - told["right"]["nearest"])
    alone = judge(belief.by_draw()[0], labels.tolist(), unseen=("d",))
    assert alone["right"]["votes"] == alone["right"]["nearest"]
    assert "r_auroc_votes" not in alone["scores"]
    assert "r_auroc_outvoted" in alone["scores"]


def test_the_shown_pictures_are_always_the_same() -> None:
    images = load("digits:test")
    chosen = some(images, 30)
    assert chosen.ids == some(images, 30).ids
    assert len(set(chosen.ids)) == 30
    assert chosen.ids != images.ids[:30]


@pytest.fixture(scope="module")
def pictures() -> ImageSet:
    return load("digits:train@!8,9")


@pytest.fixture(scope="module")
def network(pictures: ImageSet) -> Embedder:
    recipe = recipe_for("digits").but(backbone="mlp", dim=2, epochs=2, classes_per_batch=8)
    return trained(pictures, recipe.but(loss_options={"power": 1, "neg_margin": 1.0})).embedder


def test_places_lie_in_the_plane_not_on_the_circle(pictures: ImageSet, network: Embedder) -> None:
    assert network.encode(pictures).mean.norm(dim=-1).std() > 0.05


def test_a_trial_is_a_record_of_what_was_measured(pictures: ImageSet, network: Embedder) -> None:
    shown = some(load("digits:test"), 200)
    alone = json.loads(json.dumps(trial(network, shown, unseen=UNSEEN)))
    assert alone["metrics"]["map"]["all"] == precision(network.encode(shown), [str(label) for label in shown.labels])
    assert alone["metrics"]["map"]["seen"]["min_rk"]["1"] > 0.3  # eight kinds
    assert alone["features"]["map"]["all"] == precision(Point(encoded(network, shown)[1]), np.array(shown.labels, str))
    assert "closed_form" not in alone
    fitted = posterior(network, pictures, structure="last-full")
    many = json.loads(json.dumps(trial(fitted, shown, unseen=UNSEEN)))
    assert many["posterior"]["structure"] == "last-full"
    assert many["draws"] == DRAWS
    drawn, closed = (many[key]["variance"]["all"]["median"] for key in ("metrics", "closed_form"))
    assert drawn == pytest.approx(closed, rel=0.3)  # 100 draws of what the closed form says
    belief = laplace.drawn(fitted, DRAWS).encode(shown)
    assert len(belief.by_draw()) == DRAWS
    assert many["metrics"]["map"]["unseen"] == judge(belief, shown.labels, unseen=UNSEEN)["map"]["unseen"]


def test_figure_has_a_map_the_deviations_and_a_panel_for_each_unseen_kind() -> None:
    belief, labels = draws_and_labels(items=60)
    figure = unseen_figure(belief, labels.tolist(), unseen=("c", "d"))
    figure.canvas.draw()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    doubt = np.sqrt(belief.uncertainty.numpy() / 2)
    assert titles[:2] == ["all kinds; crosses: never seen in training", "how unsure"]
    assert titles[2:] == [f"{kind}: median deviation {np.median(doubt[labels == kind]):.2g}" for kind in "cd"]
    medians = [line.get_xdata()[0] for line in figure.axes[1].lines]
    assert medians == pytest.approx([np.median(doubt[np.isin(labels, list(kinds))]) for kinds in ("ab", "cd")])
    grey, mine = (figure.axes[2].collections[i].get_offsets() for i in (0, 2))
    centres = outlines(belief, map_plane(belief)).centres
    assert np.allclose(mine, centres[labels == "c"])
    assert len(grey) + len(mine) == len(belief)
    assert len({axes.get_xlim() for axes in (figure.axes[0], *figure.axes[2:])}) == 1


@pytest.mark.parametrize("unseen", [("c", "z"), (), ("a", "b", "c", "d")])
def test_figure_needs_both_kinds(unseen: tuple[str, ...]) -> None:
    belief: Embedding = draws_and_labels()[0]
    with pytest.raises(InputError, match="every unseen kind, and of others"):
        unseen_figure(belief, draws_and_labels()[1].tolist(), unseen=unseen)
