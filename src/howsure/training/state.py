"""The state of a run: enough to go on bit for bit after any stop."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as tensor_bytes
from torch import Tensor, nn
from torch.optim import Optimizer

from howsure.data.content import SeenContent
from howsure.embedder import Embedder
from howsure.errors import TrainingError
from howsure.files import write_whole
from howsure.recipe import Recipe
from howsure.training.events import Epoch

CHECKPOINT = "checkpoint.safetensors"


class State:
    """Weights, loss, optimiser, random numbers, history, and the best weights so far."""

    def __init__(self, embedder: Embedder, loss: nn.Module, optimizer: Optimizer, recipe: Recipe):
        self.embedder, self.loss, self.optimizer, self.recipe = embedder, loss, optimizer, recipe
        self.history: list[Epoch] = []
        self.best: dict[str, Tensor] = _copied(embedder)

    @property
    def epoch(self) -> int:
        """How many whole epochs are done."""
        return len(self.history)

    @property
    def stale(self) -> bool:
        """Whether the validation recall has been below its best for `patience` epochs, or no gradient is left."""
        if not self.history:
            return False
        best = max(self.history, key=lambda epoch: (epoch.recall_at_1, epoch.epoch))
        return self.history[-1].loss == 0 or self.epoch - best.epoch >= self.recipe.patience

    @property
    def finished(self) -> bool:
        """Whether no epoch is left to do, or none would help."""
        return self.epoch >= self.recipe.epochs or self.stale

    def finish(self, done: Epoch) -> bool:
        """Note a whole epoch; True if it is the best so far, and among equals the later one is."""
        self._check_finite()
        better = all(done.recall_at_1 >= before.recall_at_1 for before in self.history)
        self.history.append(done)
        if better:
            self.best = _copied(self.embedder)
        return better

    def save(self, folder: Path) -> None:
        """Write the checkpoint, whole or not at all."""
        about = {
            "recipe": self.recipe.model_dump(),
            "history": [asdict(epoch) for epoch in self.history],
            "card": self.embedder.card,
        }
        tensors = {name: t.detach().cpu().contiguous().clone() for name, t in self._tensors().items()}
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / CHECKPOINT, tensor_bytes(tensors, metadata={"run": json.dumps(about)}))

    def restore(self, folder: Path) -> None:
        """Go back to the last whole epoch; a folder without a checkpoint is a run that has not begun."""
        stored = _read(folder)
        if stored is None:
            return
        about, tensors = stored
        begun = Recipe.from_json(about["recipe"])
        open_end = begun.schedule == "constant"  # a cycle must know its end
        changed = (begun.but(epochs=self.recipe.epochs) if open_end else begun).differences(self.recipe)
        if changed:
            more = " (more epochs are fine)" if open_end else ""
            raise TrainingError(
                f"{folder} was begun with another recipe: {'; '.join(changed)}",
                fix=f"resume with the same settings{more}, or train into another folder",
            )
        for key, other in (
            ("classes", "on other classes"),
            ("pictures", "on other pictures"),
            ("origin", "from another model"),
        ):
            if about["card"].get(key) != self.embedder.card.get(key):
                raise TrainingError(
                    f"{folder} was begun {other}",
                    fix="resume with the same, or train into another folder",
                )
        self.history = [Epoch(**epoch) for epoch in about["history"]]
        self.embedder.card = about["card"] | {"recipe": self.recipe.model_dump()}
        parts = _by_prefix(tensors)
        self.embedder.load_state_dict(parts["embedder"])
        try:
            self.loss.load_state_dict(parts.get("loss", {}))
        except RuntimeError as error:
            raise TrainingError(
                f"{folder} was begun with another loss", fix="resume with the same, or train into another folder"
            ) from error
        self.best = parts["best"]
        slots = {int(slot): values for slot, values in _by_prefix(parts.get("optimizer", {})).items()}
        self.optimizer.load_state_dict({"state": slots, "param_groups": self.optimizer.state_dict()["param_groups"]})
        torch.set_rng_state(tensors["random"])
        if "seen" in tensors:  # earlier versions did not keep it
            self.embedder.seen |= SeenContent(tensors["seen"].numpy(), complete=True)

    def _check_finite(self) -> None:
        """Embeddings can be finite where a weight of the loss is not, and the next epoch would start from it."""
        bad = [name for name, t in self._tensors().items() if t.is_floating_point() and not torch.isfinite(t).all()]
        if bad:
            raise TrainingError(
                f"the state after epoch {self.epoch + 1}",
                expected="finite numbers",
                got=f"NaN or infinity in {bad[0]}" + f" and {len(bad) - 1} more" * (len(bad) > 1),
                fix=f"lower learning_rate (now {self.recipe.learning_rate:g}); the last whole epoch is kept",
            )

    def _tensors(self) -> dict[str, Tensor]:
        slots = self.optimizer.state_dict()["state"]
        return (
            {f"embedder/{name}": t for name, t in self.embedder.state_dict().items()}
            | {f"loss/{name}": t for name, t in self.loss.state_dict().items()}
            | {f"best/{name}": t for name, t in self.best.items()}
            | {f"optimizer/{slot}/{name}": t for slot, values in slots.items() for name, t in values.items()}
            | {"random": torch.get_rng_state(), "seen": torch.from_numpy(self.embedder.seen.hashes)}
        )


def stored_recipe(folder: Path) -> Recipe | None:
    """The recipe of a run that was begun in this folder; None if there is none."""
    stored = _read(folder)
    return None if stored is None else Recipe.from_json(stored[0]["recipe"])


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    file = folder / CHECKPOINT
    if not file.exists():
        return None
    try:
        with safe_open(file, framework="pt") as stored:
            about = json.loads((stored.metadata() or {})["run"])
            return about, {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, json.JSONDecodeError, OSError) as error:
        raise TrainingError(f"{file}", got=f"unreadable: {error}", fix="delete it and train again") from error


def _copied(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def _by_prefix(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    parts: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        part, _, name = key.partition("/")
        parts.setdefault(part, {})[name] = tensor
    return parts
