"""A run that was stopped, however roughly, ends as if it had not been."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from howsure.data import load
from howsure.embedder import Embedder
from howsure.errors import TrainingError
from howsure.recipe import Recipe, recipe_for
from howsure.training import Epoch, Event, Step, Trained, run_training, stored_recipe
from howsure.training.state import State

EPOCHS = 5
RECIPE = recipe_for("digits").but(backbone="mlp", epochs=EPOCHS, method="gaussian")
DIGITS = load("digits:train").subset(range(400))


def bits(folder: Path) -> dict[str, torch.Tensor]:
    """Everything on disk that training wrote: weights, optimiser, random numbers, best weights."""
    return load_file(folder / "checkpoint.safetensors") | load_file(folder / "weights.safetensors")


def equal(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, Path]:
    folder = tmp_path_factory.mktemp("whole")
    return run_training(DIGITS, RECIPE, out=folder), folder


def assert_same_run(resumed: Trained, folder: Path, whole: tuple[Trained, Path]) -> None:
    assert resumed.history == whole[0].history
    assert resumed.embedder.fingerprint == whole[0].embedder.fingerprint
    assert equal(bits(folder), bits(whole[1]))
    cards = [json.loads((path / "card.json").read_text()) for path in (folder, whole[1])]
    assert cards[0] == cards[1]


CHILD = """
import os, signal, sys
from pathlib import Path
from howsure.data import load
from howsure.recipe import Recipe
from howsure.training import Step, run_training

def tell(event):
    if isinstance(event, Step) and (event.epoch, event.step) == (4, 2):
        os.kill(os.getpid(), signal.SIGKILL)

run_training(load("digits:train").subset(range(400)), Recipe.from_json({recipe!r}), out=Path({out!r}), tell=tell)
"""


def test_killed(whole: tuple[Trained, Path], tmp_path: Path) -> None:
    script = CHILD.format(recipe=RECIPE.model_dump(mode="json"), out=str(tmp_path))
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run([sys.executable, "-c", script], env=os.environ | threads, timeout=240)
    assert done.returncode == -signal.SIGKILL
    stored = load_file(tmp_path / "checkpoint.safetensors")
    assert not equal(stored, load_file(whole[1] / "checkpoint.safetensors"))
    assert_same_run(run_training(DIGITS, RECIPE, out=tmp_path, resume=True), tmp_path, whole)


def test_stopped_by_hand_again_and_again(whole: tuple[Trained, Path], tmp_path: Path) -> None:
    def stop_at(epoch: int, step: int | None) -> Any:
        def tell(event: Event) -> None:
            at = getattr(event, "epoch", None), event.step if isinstance(event, Step) else None
            if at == (epoch, step):
                raise KeyboardInterrupt

        return tell

    for epoch, step in ((1, 1), (2, 3), (2, 1), (2, None), (5, 2)):  # None: between two epochs
        with pytest.raises(KeyboardInterrupt):
            run_training(DIGITS, RECIPE, out=tmp_path, resume=True, tell=stop_at(epoch, step))
        torch.manual_seed(99)  # what happens in between must not matter
    assert_same_run(run_training(DIGITS, RECIPE, out=tmp_path, resume=True), tmp_path, whole)


def test_stopped_between_model_and_checkpoint(
    whole: tuple[Trained, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = State.save

    def die(state: State, folder: Path) -> None:
        if state.epoch == 2:
            raise KeyboardInterrupt
        write(state, folder)

    monkeypatch.setattr(State, "save", die)
    with pytest.raises(KeyboardInterrupt):
        run_training(DIGITS, RECIPE, out=tmp_path)
    monkeypatch.undo()
    assert_same_run(run_training(DIGITS, RECIPE, out=tmp_path, resume=True), tmp_path, whole)


def test_more_epochs(whole: tuple[Trained, Path], tmp_path: Path) -> None:
    run_training(DIGITS, RECIPE.but(epochs=2), out=tmp_path)
    longer = run_training(DIGITS, RECIPE, out=tmp_path, resume=True)
    assert longer.history == whole[0].history
    assert equal(bits(tmp_path), bits(whole[1]))
    assert longer.embedder.card["recipe"]["epochs"] == EPOCHS
    assert stored_recipe(tmp_path) == RECIPE


def test_a_finished_run_stays_as_it_is(whole: tuple[Trained, Path]) -> None:
    before = bits(whole[1])
    events: list[object] = []
    again = run_training(DIGITS, RECIPE, out=whole[1], resume=True, tell=events.append)
    assert again.history == whole[0].history
    assert again.embedder.fingerprint == whole[0].embedder.fingerprint == Embedder.load(whole[1]).fingerprint
    assert equal(bits(whole[1]), before)
    assert not [event for event in events if isinstance(event, Step | Epoch)]


def test_resume_without_a_run_begins_one(whole: tuple[Trained, Path], tmp_path: Path) -> None:
    assert stored_recipe(tmp_path) is None
    assert_same_run(run_training(DIGITS, RECIPE, out=tmp_path / "new", resume=True), tmp_path / "new", whole)
    assert stored_recipe(tmp_path / "new") == RECIPE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 8}, "dim: 16 -> 8"),
        ({"seed": 3}, "seed: 0 -> 3"),
        ({"learning_rate": 0.5}, "learning_rate: 0.001 -> 0.5"),
    ],
)
def test_another_recipe(whole: tuple[Trained, Path], change: dict[str, Any], message: str) -> None:
    before = bits(whole[1])
    with pytest.raises(TrainingError, match=message):
        run_training(DIGITS, RECIPE.but(**change), out=whole[1], resume=True)
    assert equal(bits(whole[1]), before)


@pytest.mark.parametrize(("source", "message"), [("digits:train", "pictures"), ("digits:train@!8,9", "classes")])
def test_other_pictures(whole: tuple[Trained, Path], source: str, message: str) -> None:
    with pytest.raises(TrainingError, match=f"other {message}"):
        run_training(load(source), RECIPE, out=whole[1], resume=True)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", None], ids=["empty", "nonsense", "cut"])
def test_damaged_checkpoint(whole: tuple[Trained, Path], tmp_path: Path, content: bytes | None) -> None:
    good = (whole[1] / "checkpoint.safetensors").read_bytes()
    (tmp_path / "checkpoint.safetensors").write_bytes(good[:-50] if content is None else content)
    with pytest.raises(TrainingError, match="delete it and train again"):
        run_training(DIGITS, RECIPE, out=tmp_path, resume=True)


def test_a_loss_with_other_weights(whole: tuple[Trained, Path]) -> None:
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

    with pytest.raises(TrainingError, match="loss"):
        run_training(DIGITS, RECIPE, out=whole[1], resume=True, loss=Other())


def test_no_pickle_in_a_run(whole: tuple[Trained, Path]) -> None:
    assert sorted(file.name for file in whole[1].iterdir()) == [
        "card.json",
        "checkpoint.safetensors",
        "seen.safetensors",
        "weights.safetensors",
    ]
    for file in whole[1].glob("*.safetensors"):
        content = file.read_bytes()
        assert json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe: Recipe = RECIPE.but(epochs=1)
    run_training(DIGITS, recipe)
    assert list(tmp_path.iterdir()) == []
