"""A gallery as it was at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from howsure.embeddings import Embedding

__all__ = ["View"]


@dataclass(frozen=True, eq=False)
class View:
    """What the gallery was like at one moment: N items, in the order in which they were added."""

    changes: int
    ids: list[str]
    labels: list[str | None]
    belief: Embedding | None  # None for an empty gallery
    uncertainty: np.ndarray  # (N,)

    @cached_property
    def ascending(self) -> np.ndarray:
        """(N,) uncertainties, sorted."""
        return np.sort(self.uncertainty)

    @cached_property
    def place(self) -> dict[str, int]:
        """Where an id is among the items."""
        return {name: row for row, name in enumerate(self.ids)}

    def rank(self, uncertainty: float) -> float | None:
        """Share of the items that are more certain; None where there are none."""
        return float(np.searchsorted(self.ascending, uncertainty) / len(self.ids)) if self.ids else None
