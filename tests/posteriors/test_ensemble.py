"""Networks trained apart: compared one by one, averaged only in common axes."""

import copy
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor, nn

from howsure.compare import rms_distance
from howsure.data import InputSpec, load
from howsure.embedder import Embedder
from howsure.embeddings import Draws
from howsure.errors import InputError
from howsure.heads import HEADS, FreePointHead
from howsure.posteriors import dropout, ensemble, laplace
from howsure.recipe import recipe_for
from howsure.training import run_training
from laws import same

D = 4
SPEC = InputSpec(8, 8, 1, (0.0,), (1.0,))
PICTURES = np.random.default_rng(0).integers(0, 256, (30, 8, 8), dtype=np.uint8)


def member(seed: int, head: str = "point", *, backbone: str = "mlp", dim: int = D, spec: InputSpec = SPEC) -> Embedder:
    torch.manual_seed(seed)
    return Embedder(backbone, head, spec, dim=dim, card={"classes": ["a"], "matcher": {}, "recipe": {"seed": seed}})


def turned(embedder: Embedder, seed: int) -> Embedder:
    """The same network in other axes."""
    other = copy.deepcopy(embedder)
    turn = torch.linalg.qr(torch.randn(D, D, generator=torch.Generator().manual_seed(seed)))[0]
    for parameter in other.head.location.parameters():
        parameter.data = turn @ parameter.data
    return other


def drawn(embedding: object) -> Draws:
    assert isinstance(embedding, Draws)
    return embedding


@pytest.mark.parametrize("head", HEADS)
def test_a_draw_is_a_member_whose_distances_are_its_own(head: str) -> None:
    members = [member(seed, head) for seed in range(3)]
    embedding = drawn(ensemble.fit(members, PICTURES).encode(PICTURES))
    alone = [one.encode(PICTURES) for one in members]
    assert embedding.atoms.family == alone[0].family
    squares = []
    for draw, own in zip(embedding.by_draw(), alone, strict=True):
        assert torch.allclose(draw.uncertainty, own.uncertainty, rtol=1e-4)
        assert torch.allclose(rms_distance(draw, draw), rms_distance(own, own), atol=1e-3)
        squares.append(rms_distance(own, own).square())
    assert torch.allclose(rms_distance(embedding, embedding).square(), torch.stack(squares).mean(0), atol=1e-3)


@pytest.mark.parametrize("head", ["point", "gaussian", "free-point", "vmf", "norm"])
def test_the_same_network_in_other_axes_disagrees_about_nothing(head: str) -> None:
    first = member(0, head)
    joined = ensemble.fit([first, turned(first, 1), turned(first, 2)], PICTURES)
    embedding, alone = drawn(joined.encode(PICTURES)), first.encode(PICTURES)
    scale = alone.mean.square().sum(-1).mean()
    assert embedding.epistemic.sum(-1).max() < 1e-6 * scale
    assert torch.allclose(embedding.to_gaussian().mean, alone.mean, atol=1e-4)
    assert torch.allclose(embedding.uncertainty, alone.uncertainty, rtol=1e-3, atol=1e-6 * float(scale))
    assert joined.card["alignment"] == {"pictures": 30, "left_apart": pytest.approx(0, abs=1e-4)}
    # Without common axes, the same average is about axes.
    joined.head.rotations.copy_(torch.eye(D).expand(3, D, D))
    assert drawn(joined.encode(PICTURES)).epistemic.sum(-1).mean() > 0.1 * scale


def test_networks_that_differ_disagree() -> None:
    joined = ensemble.fit([member(seed) for seed in range(3)], PICTURES)
    assert (drawn(joined.encode(PICTURES)).epistemic.sum(-1) > 0).all()
    assert joined.card["alignment"]["left_apart"] > 0


def test_procrustes_agrees_with_scipy() -> None:
    generator = torch.Generator().manual_seed(0)
    points, target = (torch.randn(20, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    found = ensemble.procrustes(points, target)
    wanted, _ = scipy.linalg.orthogonal_procrustes(points.numpy(), target.numpy())
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)
    with pytest.raises(InputError, match="more pictures"):
        ensemble.procrustes(points[:4], target[:4])
    with pytest.raises(InputError, match="both sides"):
        ensemble.procrustes(points, target[:19])


@pytest.mark.parametrize("head", HEADS)
def test_saved_and_loaded_bit_for_bit(head: str, tmp_path: Path) -> None:
    joined = ensemble.fit([member(seed, head) for seed in range(2)], PICTURES)
    joined.save(tmp_path)
    again = Embedder.load(tmp_path)
    assert same(again.encode(PICTURES), joined.encode(PICTURES))
    assert (again.fingerprint, again.card["backbone"], again.card["head"]) == (joined.fingerprint, "mlp", head)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["card.json", "seen.safetensors", "weights.safetensors"]


def test_the_card_tells_what_is_true_of_all_members() -> None:
    members = [member(seed) for seed in range(2)]
    card = ensemble.fit(members, PICTURES).card
    assert card["classes"] == ["a"]
    assert "recipe" not in card
    assert card["matcher"] is None
    assert "links" not in card
    for number, one in enumerate(members):
        one.card["link"] = {"scale": 1.0 + number, "offset": 0.0, "base_rate": 0.5}
    assert [link["scale"] for link in ensemble.fit(members, PICTURES).card["links"]] == [1.0, 2.0]
    assert card["origin"] == [one.fingerprint for one in members]
    assert card["posterior"] == {"kind": "ensemble", "members": 2, "dim": D}


class _Own(nn.Module):
    """A head of the user's own, which does not tell its dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = FreePointHead(64, D)

    def forward(self, features: Tensor) -> object:
        return self.inner(features)


def test_networks_of_your_own(tmp_path: Path) -> None:
    def own(seed: int) -> Embedder:
        torch.manual_seed(seed)
        return Embedder(nn.Flatten(), _Own(), SPEC)

    joined = ensemble.fit([own(0), own(1)], PICTURES)
    joined.save(tmp_path)
    again = Embedder.load(tmp_path, backbone=nn.Flatten(), head=_Own())
    assert same(again.encode(PICTURES), joined.encode(PICTURES))


def test_members_stay_as_they_are_and_a_loader_is_read_once() -> None:
    members = [member(seed) for seed in range(2)]
    prints = [one.fingerprint for one in members]
    batches = (SPEC.normalise(torch.from_numpy(PICTURES[i : i + 10, None])) for i in (0, 10, 20))
    joined = ensemble.fit(members, batches)
    before = joined.encode(PICTURES)
    assert joined.card["alignment"]["pictures"] == 30
    assert [one.fingerprint for one in members] == prints
    with torch.no_grad():
        members[1].head.location.weight.zero_()
    assert same(joined.encode(PICTURES), before)


def doubting(seed: int) -> Embedder:
    """A member with a posterior of its last layer, and a reference for novelty."""
    generator = torch.Generator().manual_seed(seed)
    batches = [(torch.rand(60, 1, 8, 8, generator=generator), torch.arange(60) % 5) for _ in range(2)]
    return laplace.with_novelty(laplace.fit_posterior(member(seed), batches[:1]), batches[1:])


def test_members_with_a_posterior_of_their_own(tmp_path: Path) -> None:
    members = [doubting(seed) for seed in range(2)]
    joined = ensemble.fit(members, PICTURES)
    embedding, alone = drawn(joined.encode(PICTURES)), [one.encode(PICTURES) for one in members]
    assert torch.allclose(embedding.novelty, torch.stack([one.novelty for one in alone]).mean(0))
    ignored = torch.stack([one.uncertainty for one in alone]).mean(0)
    assert torch.allclose(embedding.aleatoric.sum(-1), ignored, rtol=1e-4)
    _, part = joined.encode_split(PICTURES)
    assert torch.allclose(part, embedding.uncertainty, rtol=1e-4)  # points say nothing about the picture itself
    joined.save(tmp_path)
    again = Embedder.load(tmp_path)
    assert same(again.encode(PICTURES), embedding)
    assert again.fingerprint == joined.fingerprint


OTHER = InputSpec(8, 8, 1, (0.5,), (1.0,))


def external(backbone: nn.Module, head: nn.Module) -> Embedder:
    return Embedder(backbone, head, SPEC)


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ([member(0)], "two embedders"),
        ([member(0), member(1), member(0)], "twice"),
        ([member(0), member(1, dim=5)], "in member 1, dim 5 in place of 4"),
        ([member(0), member(1, "gaussian")], "head gaussian in place of point"),
        ([member(0), member(1, backbone="resnet")], "backbone resnet in place of mlp"),
        ([member(0), member(1, spec=OTHER)], "input"),
        ([member(0), dropout.fit(member(1), 2)], "dropout in member 1"),
        ([member(0), doubting(1)], "head LastLayerLaplace in place of PointHead"),
        ([laplace.drawn(doubting(0), 3), doubting(1)], "laplace in member 0"),
        ([external(nn.Flatten(), _Own()), external(nn.Flatten(), FreePointHead(64, D))], "head"),
        (
            [external(nn.Flatten(), nn.Linear(64, D)), external(nn.Flatten(), nn.Linear(64, D, bias=False))],
            "weights of other",
        ),
    ],
)
def test_networks_that_do_not_fit(members: list[Embedder], word: str) -> None:
    with pytest.raises(InputError, match=word):
        ensemble.fit(members, PICTURES)


def test_too_few_pictures_to_find_axes_by() -> None:
    with pytest.raises(InputError, match="give more pictures"):
        ensemble.fit([member(0), member(1)], PICTURES[: D - 1])


def test_a_posterior_of_an_ensemble_is_refused() -> None:
    joined = ensemble.fit([member(0), member(1)], PICTURES)
    with pytest.raises(InputError, match="got ensemble"):
        dropout.fit(joined, 3)


def test_scales_are_learned_for_one_network_alone() -> None:
    joined = ensemble.fit([member(0), member(1)], PICTURES)
    recipe = recipe_for("digits").but(method="pfe", backbone="mlp", dim=D)
    with pytest.raises(InputError, match="a posterior, ensemble"):
        run_training(load("digits:train").subset(range(60)), recipe, start=joined)
