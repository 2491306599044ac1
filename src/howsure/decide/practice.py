"""Practice queries: items of the gallery, searched among all others, some of them without their own identity.

They cost no held-out query. What scores a query is fitted to them, and chosen by them, so that every held-out query is
left to test it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from howsure.decide.evidence import DEPTH
from howsure.embeddings import Embedding
from howsure.neighbours import Neighbours, neighbours
from howsure.numerics.link import folds_of

MOST = 2_000  # items that are searched
LEAST = 40  # right and wrong answers each, below which nothing can be learned from them


@dataclass(frozen=True, eq=False)
class Practice:
    """Some items of a gallery as queries; arrays are (P,)."""

    rows: np.ndarray  # of the gallery
    hidden: np.ndarray  # bool: searched without their identity
    known: np.ndarray  # bool: another item of their identity is there to be found
    folds: np.ndarray  # by identity

    @classmethod
    def draw(cls, names: np.ndarray, *, unknown_rate: float, rng: np.random.Generator) -> Practice:
        """Items at random; from a share of them their identity is hidden."""
        codes = np.unique(names.astype(str), return_inverse=True)[1]
        rows = rng.permutation(len(names))[:MOST]
        hidden = rng.random(len(rows)) < unknown_rate
        mates = np.bincount(codes)[codes[rows]] > 1
        return cls(rows, hidden, mates & ~hidden, folds_of(names[rows].tolist()))

    def nearest(self, gallery: Embedding, names: np.ndarray) -> Neighbours:
        """The nearest items that each may see."""
        codes = np.unique(names.astype(str), return_inverse=True)[1]

        def unseen(some: np.ndarray) -> np.ndarray:
            mask = (codes[self.rows[some]][:, None] == codes) & self.hidden[some][:, None]
            mask[np.arange(len(some)), self.rows[some]] = True
            return mask

        return neighbours(gallery[self.rows], gallery, depth=min(DEPTH, len(gallery) - 1), hidden=unseen)

    def teaches(self, right: np.ndarray) -> bool:
        """Whether there is enough of both outcomes to learn from."""
        return min(int(right.sum()), int((~right).sum())) >= LEAST
