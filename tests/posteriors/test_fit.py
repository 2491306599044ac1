"""Fitting a posterior to an embedder: what it changes, what it keeps, and that it says the right thing."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from howsure.data import ArrayImages, InputSpec
from howsure.embedder import Embedder, read_card
from howsure.embeddings import Draws, Gaussian, NovelGaussian
from howsure.errors import InputError, ModelError
from howsure.files import sealed
from howsure.heads import FreePointHead
from howsure.posteriors import dropout, ensemble, laplace
from howsure.posteriors.laplace import Curvature, PairGraph, loss_curvature, pair_curvature
from laws import same
from posteriors.closeness import assert_close

SPEC = InputSpec(8, 8, 1, (0.0,), (1.0,))
STRUCTURES = ["last-full", "last-low-rank", "last-diagonal"]


def pictures(count: int, *, seed: int) -> ArrayImages:
    """Four classes, each bright in a quarter of its own, in the upper half alone."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 4
    array = rng.integers(0, 40, (count, 8, 8))
    for i, label in enumerate(labels):
        array[i, :4, 2 * label : 2 * label + 2] += 150
    array[:, 4:] = 0
    return ArrayImages("quarters", tuple(map(str, range(count))), tuple(map(str, labels)), array.astype(np.uint8))


@pytest.fixture
def embedder() -> Embedder:
    torch.manual_seed(0)
    return Embedder("mlp", "point", SPEC, dim=3, card={"classes": ["0", "1"], "matcher": {"scale": 1.0}}).eval()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_places_stay_and_variance_comes(structure: laplace.Structure, embedder: Embedder) -> None:
    before, weights = embedder.fingerprint, pictures(64, seed=0)
    sure = laplace.fit_posterior(embedder.train(), weights, structure=structure, rank=16)
    assert embedder.training
    embedding, points = sure.encode(weights), embedder.encode(weights)
    assert isinstance(embedding, Gaussian)
    assert torch.equal(embedding.mean, points.mean)
    assert (embedding.uncertainty > 0).all()
    assert embedder.fingerprint == before
    assert type(embedder.head).__name__ == "PointHead"
    assert sure.card["origin"] == before
    assert sure.card["matcher"] is None  # distances are no longer those it was fitted on
    assert sure.card["laplace"]["structure"] == structure
    assert (sure.card["backbone"], sure.card["head"], sure.card["dim"]) == ("mlp", "point", 3)


@pytest.mark.parametrize("draws", [0, 5])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_saved_and_loaded_bit_for_bit(
    structure: laplace.Structure, draws: int, embedder: Embedder, tmp_path: Path
) -> None:
    images = pictures(64, seed=0)
    sure = laplace.drawn(laplace.fit_posterior(embedder, images, structure=structure, rank=16), draws, seed=3)
    sure.save(tmp_path)
    again = Embedder.load(tmp_path)
    assert same(again.encode(images), sure.encode(images))
    assert again.fingerprint == sure.fingerprint
    assert again.card == read_card(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["card.json", "seen.safetensors", "weights.safetensors"]


def test_a_card_without_its_posterior_is_a_damaged_model(embedder: Embedder, tmp_path: Path) -> None:
    laplace.fit_posterior(embedder, pictures(64, seed=0)).save(tmp_path)
    card = read_card(tmp_path)
    for damaged in ({k: v for k, v in card.items() if k != "posterior"}, card | {"posterior": {"rank": 3}}):
        (tmp_path / "card.json").write_text(json.dumps(sealed(damaged)))
        with pytest.raises(ModelError, match="weights of"):
            Embedder.load(tmp_path)


def test_an_external_network_in_five_lines(tmp_path: Path) -> None:
    class Theirs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten())
            self.fc = nn.Linear(144, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(self.body(x))

    network, images = Theirs().eval(), pictures(64, seed=0)
    expected = network(SPEC.normalise(torch.from_numpy(images.array[:, None]))).detach()

    head = FreePointHead(144, 3)
    head.location, network.fc = network.fc, nn.Identity()
    sure = laplace.fit_posterior(Embedder(network, head, SPEC), images)
    embedding = sure.encode(images)

    assert_close(embedding.mean, expected)
    assert (embedding.uncertainty > 0).all()
    sure.save(tmp_path)
    assert same(Embedder.load(tmp_path, backbone=network).encode(images), embedding)


@pytest.mark.parametrize("structure", ["last-full", "last-low-rank"])
def test_what_was_never_seen_is_novel(structure: laplace.Structure, embedder: Embedder) -> None:
    known, ood = pictures(200, seed=1), pictures(50, seed=2)
    ood = ArrayImages("upside down", ood.ids, ood.labels, ood.array[:, ::-1].copy())
    sure = laplace.fit_posterior(embedder, pictures(400, seed=0), structure=structure)
    raw = [sure.head.raw_variance(features(sure, images)) for images in (known, ood)]
    assert (raw[1][:, None] > raw[0]).double().mean() > 0.95


def test_typicality_is_a_p_value_and_small_for_what_was_never_seen(embedder: Embedder, tmp_path: Path) -> None:
    sure = laplace.with_novelty(laplace.fit_posterior(embedder, pictures(400, seed=0)), pictures(400, seed=1))
    known, ood = pictures(1000, seed=2), pictures(50, seed=3)
    ood = ArrayImages("upside down", ood.ids, ood.labels, ood.array[:, ::-1].copy())
    embedding = sure.encode(known)
    assert isinstance(embedding, NovelGaussian)
    for share in (0.01, 0.05, 0.2, 0.5):
        # of one calibration set of 400: some three standard errors
        assert (embedding.typicality <= share).double().mean() == pytest.approx(share, abs=0.03 + 0.1 * share)
    assert (sure.encode(ood).typicality <= 0.02).double().mean() > 0.9
    sure.save(tmp_path)
    assert same(Embedder.load(tmp_path).encode(ood), sure.encode(ood))
    pixels = SPEC.normalise(torch.from_numpy(pictures(400, seed=1).array[:, None]))
    by_loader = laplace.with_novelty(sure, [(part, part) for part in pixels.split(100)])
    assert_close(by_loader.encode(known).typicality, embedding.typicality, atol=0.01)


def test_novelty_needs_a_posterior_and_pictures(embedder: Embedder) -> None:
    with pytest.raises(InputError, match="fit first"):
        laplace.with_novelty(embedder, pictures(8, seed=0))
    with pytest.raises(InputError, match="at least one picture"):
        laplace.with_novelty(laplace.fit_posterior(embedder, pictures(64, seed=0)), [])


def features(embedder: Embedder, images: ArrayImages) -> Tensor:
    with torch.no_grad():
        return embedder.backbone(embedder.spec.normalise(torch.from_numpy(images.array[:, None])))


def test_a_loader_and_an_image_set_tell_the_same(embedder: Embedder) -> None:
    images = pictures(128, seed=0)
    codes = torch.tensor([int(label) for label in images.labels])
    pixels = SPEC.normalise(torch.from_numpy(images.array[:, None]))
    whole = laplace.fit_posterior(embedder, [(pixels, codes)], prior=1.0)
    twice = laplace.fit_posterior(embedder, [(pixels, codes), (pixels, codes)], prior=1.0, temperature=2.0)
    by_set = laplace.fit_posterior(embedder, images, prior=1.0)
    embedding = whole.encode(images)
    assert embedding.uncertainty.std() > 0
    assert_close(twice.encode(images).uncertainty, embedding.uncertainty, rtol=1e-4, atol=0)
    assert_close(by_set.encode(images).uncertainty, embedding.uncertainty, rtol=1e-4, atol=0)


def test_uncertainty_on_the_sphere_does_not_depend_on_the_length_of_the_weights(embedder: Embedder) -> None:
    """Neither embedding nor evidence change if the last layer is ten times as long."""
    images = pictures(64, seed=0)

    def sphere(z: Tensor, labels: Tensor) -> Curvature:
        return pair_curvature(z, PairGraph.from_labels(labels), variant="pos", geometry="euclidean")

    before = laplace.fit_posterior(embedder, images, curvature=sphere).encode(images)
    for parameter in embedder.head.location.parameters():
        parameter.data *= 10
    after = laplace.fit_posterior(embedder, images, curvature=sphere).encode(images)
    assert_close(after.uncertainty, before.uncertainty, rtol=1e-3, atol=0)


def test_a_hotter_posterior_and_a_weaker_prior_are_wider(embedder: Embedder) -> None:
    images = pictures(64, seed=0)
    plain, hot, weak = (
        laplace.fit_posterior(embedder, images, **options).encode(images).uncertainty
        for options in ({"prior": 1.0}, {"prior": 1.0, "temperature": 10.0}, {"prior": 0.1})
    )
    assert (hot > plain).all()
    assert (weak > plain).all()


def test_draws_agree_with_the_closed_form(embedder: Embedder) -> None:
    images = pictures(64, seed=0)
    sure = laplace.fit_posterior(embedder, images, prior=1e4)
    embedding = laplace.drawn(sure, 2000).encode(images)
    assert isinstance(embedding, Draws)
    assert_close(embedding.uncertainty, sure.encode(images).uncertainty, rtol=0.15, atol=0)
    assert isinstance(laplace.drawn(laplace.drawn(sure, 5), 0).encode(images), Gaussian)


def test_fitting_again_replaces_the_posterior(embedder: Embedder) -> None:
    images = pictures(64, seed=0)
    once = laplace.fit_posterior(embedder, images, prior=1.0)
    for fitted in (once, dropout.fit(embedder, 4)):
        assert same(laplace.fit_posterior(fitted, images, prior=1.0).encode(images), once.encode(images))


def test_the_same_variance_for_all_is_worth_a_warning(embedder: Embedder) -> None:
    class Apart(nn.Module):
        """Features on axes of their own: a prior that outweighs the data is as unsure about one as about another."""

        def forward(self, x: Tensor) -> Tensor:
            return torch.eye(64).repeat(len(x) // 64 + 1, 1)[: len(x)]

    external = Embedder(Apart(), FreePointHead(64, 3), SPEC)
    with pytest.warns(laplace.FlatVarianceWarning, match="equally unsure"):
        laplace.fit_posterior(external, pictures(128, seed=0), prior=1e12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        laplace.fit_posterior(embedder, pictures(64, seed=0))


def test_any_loss_gives_a_posterior(embedder: Embedder) -> None:
    from pytorch_metric_learning.losses import ContrastiveLoss

    images = pictures(12, seed=0)
    codes = torch.tensor([int(label) for label in images.labels])
    batches = [(SPEC.normalise(torch.from_numpy(images.array[:, None])), codes)]
    fitted = laplace.fit_posterior(
        embedder, batches, curvature=lambda z, y: loss_curvature(lambda at: ContrastiveLoss()(at, y), z), prior=1.0
    )
    assert fitted.encode(images).uncertainty.std() > 0


def of_all_pairs(z: Tensor, labels: Tensor) -> Curvature:
    return pair_curvature(z, PairGraph.from_labels(labels), variant="psd", geometry="free")


def test_what_cannot_be_fitted(embedder: Embedder) -> None:
    images = pictures(64, seed=0)
    with pytest.raises(InputError, match="last-full or last-low-rank"):
        laplace.fit_posterior(embedder, images, structure="best")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="above 0"):
        laplace.fit_posterior(embedder, images, prior=0.0)
    with pytest.raises(InputError, match="fit a point or Gaussian head"):
        laplace.fit_posterior(Embedder("mlp", "vmf", SPEC, dim=3), images)
    with pytest.raises(InputError, match="start from its origin"):
        laplace.fit_posterior(ensemble.fit([embedder, Embedder("mlp", "point", SPEC, dim=3)], images), images)
    for structure in STRUCTURES:  # more negatives than positives: no positive curvature is left
        with pytest.raises(InputError, match="look at the pairs"):
            laplace.fit_posterior(embedder, images, structure=structure, curvature=of_all_pairs)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no pair"):
        laplace.fit_posterior(embedder, [])
    with pytest.raises(InputError, match="fit first"):
        laplace.drawn(embedder, 5)


def test_other_draws_have_another_name(embedder: Embedder, tmp_path: Path) -> None:
    fitted = laplace.fit_posterior(embedder, pictures(64, seed=0), structure="last-full")
    asked = [(0, 0), (5, 0), (5, 1), (7, 0)]
    names = {laplace.drawn(fitted, draws, seed=seed).fingerprint for draws, seed in asked}
    assert len(names) == len(asked)
    laplace.drawn(fitted, 5, seed=1).save(tmp_path)
    assert Embedder.load(tmp_path).fingerprint == laplace.drawn(fitted, 5, seed=1).fingerprint
