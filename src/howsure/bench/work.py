"""One run of a table: its pictures and its model, trained, loaded, or resumed where it was stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from howsure import data
from howsure.bench.entries import Entry
from howsure.bench.plan import Cell, Table
from howsure.data import ImageSet, validation_split
from howsure.embedder import Embedder
from howsure.errors import InputError
from howsure.index.local.directory import try_lock
from howsure.posteriors import dropout, ensemble, laplace
from howsure.recipe import Recipe
from howsure.training import Event, Step, run_training
from howsure.training.state import CHECKPOINT

__all__ = ["FEATURES", "Sets", "Work", "training_split"]

FEATURES = "features.sqlite"  # cached features of frozen networks, in the folder of all tables
ALIGNING = 2_000  # pictures by which the members of an ensemble are rotated to common axes
POLL = 0.5  # seconds


@dataclass(frozen=True, eq=False)
class Sets:
    """Pictures to train on, others of the same classes to test on, and OOD pictures."""

    training: ImageSet
    test: ImageSet
    ood: ImageSet


def training_split(embedder: Embedder, images: ImageSet) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the pictures that this model was trained on, and of those held out for its validation."""
    recipe = Recipe.from_json(embedder.card["recipe"])
    return validation_split(images, share=recipe.validation_share, seed=recipe.seed)


@dataclass(frozen=True, eq=False)
class Work:
    """A run of `table`, below `folder`; `tell` is called with the share of the training that is done."""

    table: Table
    cell: Cell
    folder: Path
    quick: bool = False
    tell: Callable[[float], None] = lambda share: None
    resumed: list[str] = field(default_factory=list)  # models that an earlier run began

    @property
    def seed(self) -> int:
        """Of everything random that is not training; that of the first member of an ensemble."""
        return self.cell.seeds[0]

    @property
    def entry(self) -> Entry:
        """How this run's model is made."""
        return self.entry_of(self.cell.method, self.seed)

    def entry_of(self, method: str, seed: int) -> Entry:
        """How the model of a row is made."""
        return self.table.entries(seed=seed, quick=self.quick)[method]

    def pictures(self, role: str) -> ImageSet:
        """The pictures of a role; in a quick run a few, evenly over the set."""
        if role not in self.table.data:
            raise InputError(f"table {self.table.name}: data", expected=role, got=", ".join(self.table.data))
        images = data.load(self.table.data[role])
        if role in self.table.classes:
            first, end = self.table.classes[role]
            kept = set(images.classes[first:end])
            images = images.subset([row for row, label in enumerate(images.labels) if label in kept])
        return images.subset(range(0, len(images), self.table.quick_every)) if self.quick else images

    def sets(self) -> Sets:
        """The pictures of the roles training, test and unfamiliar."""
        return Sets(*(self.pictures(role) for role in ("training", "test", "unfamiliar")))

    def embedder(self, images: ImageSet) -> Embedder:
        """The model of this run."""
        return self._made(self.cell.method, self.cell.seeds, images)

    def _made(self, method: str, seeds: tuple[int, ...], images: ImageSet) -> Embedder:
        entry = self.entry_of(method, seeds[0])
        if entry.posterior is None:
            return self.trained(method, seeds[0], images)
        start = str(entry.start)
        if entry.is_ensemble:
            members = [self._made(start, (seed,), images) for seed in seeds]
            some = np.random.default_rng(0).permutation(len(images))[:ALIGNING]
            fitted = ensemble.fit(members, images.subset(np.sort(some).tolist()))
            fitted.card["recipe"] = members[0].card["recipe"]  # whose held-out pictures count
            return fitted
        network = self._made(start, seeds, images)
        if entry.posterior == "dropout":
            return dropout.fit(network)
        return laplace.fit(network, images, structure=entry.structure)  # type: ignore[arg-type]

    def trained(self, method: str, seed: int, images: ImageSet) -> Embedder:
        """The network of a row, from its last whole epoch on."""
        entry = self.entry_of(method, seed)
        start = self.trained(entry.start, seed, images) if entry.start else None
        with self.model(method, seed) as out:
            return run_training(images, entry.recipe, out=out, resume=True, start=start, tell=self.on_event).embedder

    @contextmanager
    def model(self, method: str, seed: int) -> Iterator[Path]:
        """The folder of a row's network; waits for a run that trains it at this moment."""
        name = Cell(method, (seed,)).name
        owner = self.folder.parent / self.table.models if self.table.models else self.folder
        out = owner / "models" / name
        out.mkdir(parents=True, exist_ok=True)
        # The system releases the lock when its owner dies, however that happens.
        while (lock := try_lock(out / "lock")) is None:
            time.sleep(POLL)
        try:
            if (out / CHECKPOINT).exists():
                self.resumed.append(name)
            yield out
        finally:
            lock.close()

    def on_event(self, event: Event) -> None:
        """Pass on the progress of training."""
        if isinstance(event, Step):
            self.tell((event.epoch - 1 + event.step / event.steps) / event.epochs)
