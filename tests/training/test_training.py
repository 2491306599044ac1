"""Small real runs on digits."""

from pathlib import Path

import numpy as np
import pytest
import torch
from pytorch_metric_learning import losses, miners
from torch import Tensor, nn

from howsure.data import ArrayImages, load
from howsure.embedder import Embedder
from howsure.embeddings import Embedding
from howsure.errors import InputError, TrainingError
from howsure.losses import OnMeans
from howsure.match import Matcher
from howsure.recipe import recipe_for
from howsure.training import Epoch, Step, run_training

RECIPE = recipe_for("digits").but(backbone="mlp", epochs=3)
DIGITS = load("digits:train")


@pytest.mark.parametrize("method", ["point", "gaussian"])
def test_learns_digits(method: str, tmp_path: Path) -> None:
    events: list[Step | Epoch] = []
    trained = run_training(DIGITS, RECIPE.but(method=method, epochs=6), out=tmp_path, tell=events.append)
    assert trained.history[-1].recall_at_1 > 0.85
    assert trained.history[-1].loss < trained.history[0].loss
    assert [e for e in events if isinstance(e, Epoch)] == list(trained.history)
    steps = [e for e in events if isinstance(e, Step)]
    assert len(steps) == 6 * steps[0].steps
    assert all(np.isfinite(step.loss) for step in steps)

    test = load("digits:test")
    embedding = trained.embedder.encode(test)
    distance = torch.cdist(embedding.mean, embedding.mean).fill_diagonal_(torch.inf)
    labels = np.array(test.labels)
    assert (labels[distance.argmin(1)] == labels).mean() > 0.85

    saved = Embedder.load(tmp_path)
    assert saved.fingerprint == trained.embedder.fingerprint
    card = saved.card
    assert card["classes"] == [str(digit) for digit in range(10)]
    assert card["recipe"]["epochs"] == 6
    assert sum(card["pictures"].values()) == len(DIGITS)
    assert card["validation"]["recall_at_1"] == max(e.recall_at_1 for e in trained.history)
    assert Matcher(**card["matcher"]).scale > 0


def test_the_best_epoch_is_kept() -> None:
    trained = run_training(DIGITS, RECIPE.but(epochs=6, learning_rate=0.01))
    best = max(e.recall_at_1 for e in trained.history)
    assert trained.embedder.card["validation"]["recall_at_1"] == best
    first = next(e.epoch for e in trained.history if e.recall_at_1 == best)
    assert trained.embedder.card["validation"]["epoch"] == first
    shorter = run_training(DIGITS, RECIPE.but(epochs=first, learning_rate=0.01))
    assert shorter.embedder.fingerprint == trained.embedder.fingerprint


def test_stops_when_recall_rises_no_more() -> None:
    trained = run_training(DIGITS, RECIPE.but(epochs=40, patience=2))
    recalls = [e.recall_at_1 for e in trained.history]
    assert len(recalls) < 40
    assert max(recalls[-2:]) <= max(recalls[:-2])


def test_a_seed_is_a_run() -> None:
    one, same, other = (run_training(DIGITS, RECIPE.but(epochs=1, seed=seed)) for seed in (1, 1, 2))
    assert one.embedder.fingerprint == same.embedder.fingerprint != other.embedder.fingerprint
    assert one.history == same.history


def test_any_pytorch_metric_learning_loss_and_miner() -> None:
    loss = OnMeans(losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner())
    assert run_training(DIGITS, RECIPE, loss=loss).history[-1].recall_at_1 > 0.8


def test_a_loss_with_weights_of_its_own_is_trained() -> None:
    loss = OnMeans(losses.ProxyAnchorLoss(num_classes=10, embedding_size=RECIPE.dim))
    before = next(loss.parameters()).detach().clone()
    assert run_training(DIGITS, RECIPE, loss=loss).history[-1].recall_at_1 > 0.7
    assert not torch.equal(before, next(loss.parameters()))


@pytest.mark.parametrize("miner", ["semihard", "hard", "hardest", "easy"])
def test_miners_by_name(miner: str) -> None:
    trained = run_training(DIGITS, RECIPE.but(epochs=2, loss="triplet", miner=miner, learning_rate=1e-4))
    assert trained.history[-1].recall_at_1 > 0.5


def test_validation_pictures_are_never_trained_on() -> None:
    """Each picture carries its own number in its pixels; a loss that sees pixels notes them."""
    count = 200
    numbers = np.arange(count)
    array = np.zeros((count, 8, 8), np.uint8)
    array[:, 0, 0], array[:, 0, 1] = numbers % 256, numbers % 4 * 60
    made = ArrayImages("numbered", tuple(map(str, numbers)), tuple(str(i % 4) for i in numbers), array)
    seen: set[int] = set()
    judged: set[int] = set()

    def note(module: nn.Module, inputs: tuple[Tensor]) -> None:
        (seen if module.training else judged).update((inputs[0][:, 0, 0, 0] * 255).round().int().tolist())

    def watched(module: nn.Module, inputs: tuple[Tensor]) -> None:
        shape = getattr(inputs[0], "shape", ())
        if shape[1:] == (1, 8, 8) and shape[0] > 1:  # one empty picture only measures the backbone
            note(module, inputs)

    watch = nn.modules.module.register_module_forward_pre_hook(watched)
    try:
        run_training(made, RECIPE.but(epochs=2))
    finally:
        watch.remove()
    assert seen
    assert judged
    assert not seen & judged
    assert seen | judged == set(range(count))


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(InputError, match="point or dropout"):
        run_training(DIGITS, RECIPE.but(method="laplace"))


@pytest.mark.parametrize("method", ["soft-contrastive", "hedged", "centroids", "centroids-ce", "vmf", "mc-infonce"])
@pytest.mark.parametrize("unused", [{"loss": "triplet"}, {"miner": "hard"}])
def test_a_loss_or_miner_that_would_go_unused_is_refused(method: str, unused: dict[str, str]) -> None:
    with pytest.raises(InputError, match="its own loss"):
        run_training(DIGITS, RECIPE.but(method=method, **unused))


class _Poisoned(nn.Module):
    """The given loss until batch `at`; then NaN, in the value or only in the gradient."""

    def __init__(self, at: int, *, gradient_only: bool = False):
        super().__init__()
        self.inner, self.at, self.gradient_only, self.calls = OnMeans(losses.ContrastiveLoss()), at, gradient_only, 0

    def forward(self, e: Embedding, labels: Tensor) -> Tensor:
        self.calls += 1
        value = self.inner(e, labels)
        if self.calls < self.at:
            return value
        if self.gradient_only:
            return value + (e.mean * 0).sum().sqrt()  # 0, with slope NaN
        return value * torch.nan


@pytest.mark.parametrize("gradient_only", [False, True])
def test_nan_is_explained_and_the_last_whole_epoch_kept(tmp_path: Path, gradient_only: bool) -> None:
    events: list[Step | Epoch] = []
    whole = run_training(DIGITS, RECIPE.but(epochs=2), out=tmp_path, loss=_Poisoned(10_000), tell=events.append)
    kept = (tmp_path / "checkpoint.safetensors").read_bytes()
    last_batch = max(event.step for event in events if isinstance(event, Step))
    with pytest.raises(TrainingError, match=r"NaN|nan") as caught:
        run_training(DIGITS, RECIPE, out=tmp_path, resume=True, loss=_Poisoned(last_batch, gradient_only=gradient_only))
    assert "learning_rate" in caught.value.fix
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == kept
    assert Embedder.load(tmp_path).fingerprint == whole.embedder.fingerprint


def test_nan_in_the_first_epoch_leaves_no_model(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="epoch 1, batch 2"):
        run_training(DIGITS, RECIPE, out=tmp_path / "model", loss=_Poisoned(2))
    assert not (tmp_path / "model").exists()


class _Together(nn.Module):
    def forward(self, e: Embedding, labels: Tensor) -> Tensor:
        return e.mean.var(0).sum()


def test_collapse_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="collapsed") as caught:
        run_training(DIGITS, RECIPE.but(epochs=20, learning_rate=0.01), out=tmp_path, loss=_Together())
    assert "learning_rate (now 0.01)" in caught.value.fix


def test_labels_at_random_teach_nothing() -> None:
    labels = tuple(np.random.default_rng(0).permutation(np.array(DIGITS.labels)).tolist())
    shuffled = ArrayImages("shuffled", DIGITS.ids, labels, DIGITS.array)  # type: ignore[attr-defined]
    with pytest.raises(TrainingError, match="nothing was learned"):
        run_training(shuffled, RECIPE.but(validation_share=0.4))


class _Solved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, e: Embedding, labels: Tensor) -> Tensor:
        self.calls += 1
        return e.mean.sum() * 0


def test_an_epoch_without_gradient_is_the_last_also_after_a_resume(tmp_path: Path) -> None:
    loss = _Solved()
    assert len(run_training(DIGITS, RECIPE, out=tmp_path, loss=loss).history) == 1
    calls = loss.calls
    assert len(run_training(DIGITS, RECIPE, out=tmp_path, resume=True, loss=loss).history) == 1
    assert loss.calls == calls


def test_classes_with_one_picture_do_no_harm() -> None:
    rows = [*range(300), *np.flatnonzero(np.array(DIGITS.labels) == "9")]
    few = DIGITS.subset(sorted(set(rows)))
    labels = tuple(f"single {i}" if i < 5 else label for i, label in enumerate(few.labels))
    mixed = ArrayImages("mixed", few.ids, labels, few.array)  # type: ignore[attr-defined]
    assert run_training(mixed, RECIPE.but(epochs=8)).history[-1].recall_at_1 > 0.6


@pytest.mark.parametrize(
    ("labels", "message"),
    [([None], "without"), (["a"], "two classes or more"), ([str(i) for i in range(40)], "two pictures")],
)
def test_data_that_cannot_teach(labels: list[str | None], message: str, tmp_path: Path) -> None:
    made = ArrayImages("made", tuple(map(str, range(40))), tuple((labels * 40)[:40]), np.zeros((40, 8, 8), np.uint8))
    with pytest.raises(TrainingError, match=message):
        run_training(made, RECIPE, out=tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_recipe_that_cannot_be_built() -> None:
    with pytest.raises(InputError, match="backbone"):
        run_training(DIGITS, RECIPE.but(backbone="nothing"))
    with pytest.raises(InputError, match="did you mean"):
        run_training(DIGITS, RECIPE.but(loss="tripletts"))
