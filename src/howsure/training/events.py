"""The events of a training run, and its result."""

from __future__ import annotations

from dataclasses import dataclass

from howsure.data import Skipped
from howsure.embedder import Embedder


@dataclass(frozen=True)
class Preparation:
    """Before the first batch, after some pictures: they are read, and a frozen network computes their features."""

    task: str
    done: int
    total: int


@dataclass(frozen=True)
class Step:
    """After every batch."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float


@dataclass(frozen=True)
class Epoch:
    """After every pass over the data; the list of them is the history of a run."""

    epoch: int
    loss: float
    recall_at_1: float  # leave-one-out among the validation pictures


Event = Preparation | Step | Epoch


@dataclass(frozen=True)
class Trained:
    """The best embedder of a run, how it got there, and the pictures that could not be read."""

    embedder: Embedder
    history: tuple[Epoch, ...]
    skipped: tuple[Skipped, ...]
