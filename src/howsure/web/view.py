"""A gallery as it was at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from howsure.embeddings import Embedding
from howsure.web.gallery_review import Neighbourhood
from howsure.web.schemas import RocReply

__all__ = ["View"]


@dataclass(eq=False)
class View:
    """What the gallery was like at one moment: N items, in the order in which they were added.

    What takes long to compute is kept here, so that it is computed once for each state of the gallery.
    """

    changes: int
    ids: list[str]
    labels: list[str | None]
    embedding: Embedding | None  # None for an empty gallery
    uncertainty: np.ndarray  # (N,)
    neighbourhood: Neighbourhood | None = None
    unknown_roc: RocReply | str | None = None
    maps: dict[bool, bytes] = field(default_factory=dict)  # JSON, by whether errors are still to come

    @cached_property
    def ascending(self) -> np.ndarray:
        """(N,) uncertainties, sorted."""
        return np.sort(self.uncertainty)

    @cached_property
    def position(self) -> dict[str, int]:
        """The row of each id."""
        return {name: row for row, name in enumerate(self.ids)}

    def rank(self, uncertainty: float) -> float | None:
        """Share of the items that are more certain; None where there are none."""
        return float(np.searchsorted(self.ascending, uncertainty) / len(self.ids)) if self.ids else None
