import numpy as np
import pytest
import torch

from howsure.backbones import PRETRAINED, Pretrained
from howsure.data import InputSpec
from howsure.embeddings import Gaussian, Point, VonMisesFisher
from howsure.errors import TrainingError
from howsure.recipe import Recipe, read_recipe
from howsure.training.events import Epoch
from howsure.training.validation import Validation

SPEC = InputSpec(2, 2, 1, (0.0,), (1.0,))


def judge(labels: list[str]) -> Validation:
    return Validation(torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8), labels, SPEC)


def test_recall_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 6, 700)
    points = torch.from_numpy(rng.normal(size=(700, 3)) + labels[:, None] / 2)
    hits = []
    for i in range(700):
        gaps = (points - points[i]).square().sum(-1)
        gaps[i] = torch.inf
        hits.append(labels[int(gaps.argmin())] == labels[i])
    assert judge(list(map(str, labels))).recall_at_1(Point(points)) == pytest.approx(np.mean(hits))


def test_a_picture_without_a_mate_does_not_count() -> None:
    points = torch.tensor([[0.0], [0.1], [5.0], [5.1], [9.0]])
    assert judge(["a", "a", "b", "b", "c"]).recall_at_1(Point(points)) == 1.0
    assert judge(["a", "b", "a", "b", "c"]).recall_at_1(Point(points)) == 0.0


def test_recall_is_that_of_points_so_certain_pictures_are_no_hubs() -> None:
    turn = torch.tensor([0.0, 0.1, 1.5, 1.6]).double()
    direction = torch.stack([turn.cos(), turn.sin()], 1)
    embedding = VonMisesFisher(direction, torch.tensor([1e4, 1.0, 1.0, 1.0]).double())
    assert judge(["a", "a", "b", "b"]).recall_at_1(embedding) == 1.0


def test_first_matcher() -> None:
    points = torch.tensor([[0.0], [0.1], [5.0], [5.1]])
    keys = judge(["a", "a", "b", "b"]).matcher(Point(points))
    assert keys is not None
    assert keys["scale"] > 0
    assert keys["base_rate"] == 0.5
    assert judge(["a", "b", "a", "b"]).matcher(Point(points)) is None


@pytest.mark.parametrize("scale", [0.0, 1e-3])
def test_collapse(scale: float) -> None:
    points = torch.ones(6, 3) + scale * torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    with pytest.raises(TrainingError, match="collapsed") as caught:
        judge(["a", "b"] * 3).check_not_collapsed(Point(points), Recipe())
    assert "learning_rate" in caught.value.fix


def test_uncertainty_alone_is_no_scale() -> None:
    with pytest.raises(TrainingError, match="collapsed"):
        judge(["a", "b"] * 3).check_not_collapsed(Gaussian(torch.ones(6, 3), torch.ones(6, 1)), Recipe())


def test_one_direction_is_a_collapse_however_sure_of_it() -> None:
    direction = torch.eye(3)[:1].expand(6, 3)
    with pytest.raises(TrainingError, match="collapsed"):
        judge(["a", "b"] * 3).check_not_collapsed(VonMisesFisher(direction, torch.logspace(-2, 3, 6)), Recipe())


def test_two_points_are_no_collapse() -> None:
    judge(["a", "b"]).check_not_collapsed(Point(torch.eye(2)), Recipe())


def test_chance_is_not_learning() -> None:
    labels = [str(i % 10) for i in range(200)]
    with pytest.raises(TrainingError, match="nothing was learned"):
        judge(labels).check_learned([Epoch(1, 0.5, 0.08), Epoch(2, 0.5, 0.12)], Recipe())
    judge(labels).check_learned([Epoch(1, 0.5, 0.4), Epoch(2, 0.5, 0.1)], Recipe())


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize(
    ("recipe", "offered"), [(Recipe(), True), (read_recipe("digits"), False), (read_recipe("pretrained"), False)]
)
def test_the_cure_is_named(recipe: Recipe, offered: bool, installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = PRETRAINED[read_recipe("pretrained").backbone]
    monkeypatch.setattr(Pretrained, "installed", property(lambda entry: installed))
    with pytest.raises(TrainingError) as caught:
        judge(["a", "b"] * 100).check_learned([Epoch(1, 0.5, 0.5)], recipe)
    assert ("--recipe pretrained" in caught.value.fix) == offered
    assert (entry.install in caught.value.fix) == (offered and not installed)
    assert "add pictures" in caught.value.fix
