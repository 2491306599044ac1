"""What finds candidates: one file an engine, all with one contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True, eq=False)
class Candidates:
    """Items worth an exact comparison, for each of Q queries.

    `reach` is the engine's promise: an item that is not among them was scanned at a squared key distance of at least
    this. It is infinite if all items are among them, and minus infinity if the engine cannot promise anything.
    """

    numbers: np.ndarray  # (Q, c) int64 item numbers; -1 where a place is empty
    reach: np.ndarray  # (Q,) float64


class Finder(Protocol):
    """Knows candidates and their moments by item number. Numbers only grow: a later item has a larger number."""

    def candidates(self, keys: np.ndarray, count: int) -> Candidates:
        """At least `count` items near each query key, or all items."""

    def records(self, numbers: np.ndarray) -> np.ndarray:
        """The packed moments of items that are held, in this order."""


class Engine(Finder, Protocol):
    """A finder that holds the items itself."""

    def add(self, numbers: np.ndarray, keys: np.ndarray, records: np.ndarray) -> None:
        """Take new items in, in the order of their numbers."""

    def remove(self, numbers: np.ndarray) -> None:
        """Forget items; a number that is not held is not an error."""

    def persist(self, sequence: int) -> None:
        """Make what is held quick to open again; `sequence` is the last change that it contains."""
