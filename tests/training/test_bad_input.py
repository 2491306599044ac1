"""Bad input to every method: an error in words, and nothing on disk that is not finite.

A new method is covered as soon as it is in `METHODS`.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from howsure.backbones import BACKBONES
from howsure.compare import rms_distance
from howsure.data import ArrayImages, InputSpec, load
from howsure.embedder import Embedder
from howsure.embeddings import Embedding
from howsure.errors import HowsureError, InputError, TrainingError
from howsure.heads import build_head
from howsure.losses import OnMeans, ReadsFeatures, build_loss
from howsure.recipe import recipe_for
from howsure.training import METHODS, Epoch, Step, Trained, run_training
from howsure.training.methods import Setting

FROM_A_MODEL = {"pfe"}
FEATURES = 32
SPEC = InputSpec(8, 8, 1, (0.0,), (1.0,))
DIGITS = load("digits:train")
FEW = DIGITS.subset([row for row, label in enumerate(DIGITS.labels) if label in "0123"][:100])
RECIPE = recipe_for("digits").but(
    backbone="body", dim=4, epochs=2, classes_per_batch=4, pictures_per_class=4, validation_share=0.2
)
every_method = pytest.mark.parametrize("method", METHODS)


class Body(nn.Module):
    """A small backbone whose features can be spoiled from outside, also in the middle of a run."""

    spoil: Callable[[Tensor], Tensor]

    def __init__(self, channels: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(channels * 64, FEATURES), nn.ReLU())

    def forward(self, pixels: Tensor) -> Tensor:
        return Body.spoil(self.layers(pixels))


@pytest.fixture(autouse=True)
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Multiply all features from now on."""

    def by(factor: float) -> None:
        monkeypatch.setattr(Body, "spoil", staticmethod(lambda features: features * factor), raising=False)

    monkeypatch.setitem(BACKBONES, "body", Body)
    monkeypatch.setattr(
        "howsure.posteriors.laplace.learned_variance.STEPS", 50
    )  # how well it learns is tested elsewhere
    by(1.0)
    return by


def run(method: str, images: ArrayImages = FEW, **changes: object) -> Trained:
    """Train with a changed recipe; what `train` itself takes is told apart by name."""
    own = {key: changes.pop(key) for key in ("out", "resume", "tell", "loss") if key in changes}
    recipe = RECIPE.but(method=method, **changes)
    torch.manual_seed(0)
    start = Embedder("body", "point", SPEC, dim=recipe.dim) if method in FROM_A_MODEL else None
    return run_training(images, recipe, start=start, **own)  # type: ignore[arg-type]


def relabelled(labels: list[str]) -> ArrayImages:
    rows = FEW.subset(range(len(labels)))
    return ArrayImages("relabelled", rows.ids, tuple(labels), rows.array)


def assert_says_what_to_do(error: HowsureError) -> None:
    assert error.fix
    assert error.got or "loss became" in error.what


def assert_finite(folder: Path) -> None:
    files = list(folder.glob("*.safetensors"))
    assert files
    for file in files:
        for name, tensor in load_file(file).items():
            assert torch.isfinite(tensor).all(), f"{file.name}: {name}"


@every_method
@pytest.mark.parametrize("factor", [torch.nan, torch.inf, 1e30], ids=["NaN", "infinite", "overflow"])
def test_features_that_no_embedding_can_be_made_of(
    method: str, factor: float, tmp_path: Path, spoil: Callable[[float], None]
) -> None:
    spoil(factor)
    message = None if np.isfinite(factor) else r"(?i)nan|finite"
    # What is finite may pass as an embedding and fail in the loss; and a model to start from is input.
    kind = HowsureError if np.isfinite(factor) or method in FROM_A_MODEL else TrainingError
    with pytest.raises(kind, match=message) as caught:
        run(method, out=tmp_path / "model")
    assert_says_what_to_do(caught.value)
    assert not (tmp_path / "model").exists()


@every_method
def test_vectors_of_zeros(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(layer: nn.Linear) -> None:
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)

    monkeypatch.setattr(nn.Linear, "reset_parameters", zeros)
    with pytest.raises(HowsureError) as caught:
        run(method, out=tmp_path / "model")
    assert_says_what_to_do(caught.value)
    assert not (tmp_path / "model").exists()


@every_method
@pytest.mark.parametrize("labels", [["a"] * 40, [str(i) for i in range(40)]], ids=["one class", "one item a class"])
def test_classes_that_cannot_teach(method: str, labels: list[str], tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="two classes or more with two pictures") as caught:
        run(method, relabelled(labels), out=tmp_path / "model")
    assert_says_what_to_do(caught.value)
    assert not (tmp_path / "model").exists()


@every_method
def test_some_classes_with_one_item(method: str, tmp_path: Path) -> None:
    labels = [f"single {row}" if row < 3 else str(label) for row, label in enumerate(FEW.labels)]
    epochs: list[Step | Epoch] = []
    try:
        run(method, relabelled(labels), out=tmp_path, epochs=1, tell=epochs.append)
    except TrainingError as error:
        assert "nothing was learned" in error.what  # noqa: PT017 - an honest end of one short epoch
    assert isinstance(epochs[-1], Epoch)
    assert_finite(tmp_path)


@every_method
def test_a_network_that_breaks_in_epoch_2_leaves_epoch_1(
    method: str, tmp_path: Path, spoil: Callable[[float], None]
) -> None:
    kept: dict[str, bytes] = {}

    def tell(event: Step | Epoch) -> None:
        if isinstance(event, Epoch):
            kept.update({file.name: file.read_bytes() for file in tmp_path.iterdir()})
            spoil(torch.nan)

    with pytest.raises(HowsureError) as caught:
        run(method, out=tmp_path, tell=tell)
    assert_says_what_to_do(caught.value)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == kept
    assert_finite(tmp_path)

    spoil(1.0)
    Embedder.load(tmp_path).encode(FEW).checked()
    with pytest.raises(TrainingError, match="dim: 4 -> 5"):
        run(method, out=tmp_path, resume=True, dim=5)
    assert_finite(tmp_path)


@every_method
def test_a_huge_learning_rate(method: str, tmp_path: Path) -> None:
    """Unit vectors survive it, and may even learn; whatever happens, it is message, and what is kept is finite."""
    try:
        done = run(method, out=tmp_path, learning_rate=1e6)
    except TrainingError as error:
        assert_says_what_to_do(error)
    else:
        assert all(np.isfinite(epoch.loss) for epoch in done.history)
        done.embedder.encode(FEW).checked()
    if any(tmp_path.iterdir()):
        assert_finite(tmp_path)


def embeddings(method: str, dim: int) -> tuple[Embedding, Tensor]:
    torch.manual_seed(0)
    features = torch.rand(12, FEATURES)
    return build_head(METHODS[method].head, FEATURES, dim)(features), features


@every_method
def test_embeddings_of_other_dimensions_do_not_compare(method: str) -> None:
    with pytest.raises(InputError, match="dimension") as caught:
        rms_distance(embeddings(method, 4)[0], embeddings(method, 5)[0])
    assert_says_what_to_do(caught.value)


@pytest.mark.parametrize("method", [method for method in METHODS if method not in FROM_A_MODEL])
def test_a_loss_for_another_dimension_refuses_or_does_not_care(method: str) -> None:
    loss = METHODS[method].loss(Setting(RECIPE.but(method=method, dim=4), classes=4, features=FEATURES))
    labels = torch.arange(12) % 4
    embedding, features = embeddings(method, 5)
    try:
        value = loss(embedding, labels, features) if isinstance(loss, ReadsFeatures) else loss(embedding, labels)
    except InputError as error:
        assert (error.what, error.got) == ("dimension", "5")  # noqa: PT017 - both ends are allowed
    else:
        assert torch.isfinite(value)
        assert not any(4 in weight.shape for weight in loss.parameters())


class _BreaksItself(nn.Module):
    """A fine loss, and a weight of its own that only its gradient breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.weight = OnMeans(build_loss("triplet").loss), nn.Parameter(torch.zeros(()))  # type: ignore[arg-type]

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        value: Tensor = self.inner(embedding, labels)
        return value + (self.weight * 0).sqrt()  # 0, with slope NaN


def test_a_loss_that_breaks_alone_reaches_no_file(tmp_path: Path) -> None:
    images = FEW.subset(range(40))  # two batches an epoch would show it in the loss; the last one of an epoch does not
    with pytest.raises(TrainingError, match="loss/weight") as caught:
        run("point", images, out=tmp_path / "model", loss=_BreaksItself(), pictures_per_class=16)
    assert "learning_rate" in caught.value.fix
    assert not (tmp_path / "model").exists()
