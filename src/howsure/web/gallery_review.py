"""Find duplicates and wrong labels in a gallery: every item compared with every other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from howsure.embeddings import Embedding
from howsure.match import Matcher
from howsure.neighbours import neighbours

__all__ = ["MOST", "Neighbourhood", "codes_of", "review"]

NEAREST = 16
MOST = 100_000  # items; the work grows with their square
TWIN = 0.1  # of the median gap to the nearest: two pictures that are closer are taken for one


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The k nearest other items of each of N, nearest first; codes stand for labels, -1 for none."""

    codes: np.ndarray  # (N,)
    rows: np.ndarray  # (N, k)
    distances: np.ndarray  # (N, k): rms_distance
    gaps: np.ndarray  # (N, k): distance of the means

    def errors(self) -> np.ndarray | None:
        """(N,) whether the nearest other picture carries another label; None without labels or neighbours."""
        if self.rows.shape[1] == 0 or not (self.codes >= 0).any():
            return None
        return (self.codes >= 0) & (self.codes[self.rows[:, 0]] != self.codes)

    def label_probability(self, matcher: Matcher) -> np.ndarray:
        """(N,) P(same) with the nearest other item of the same label, 0 if none is near, NaN without a label."""
        same = self._near == self.codes[:, None]
        first = np.where(same, self.distances, np.inf).min(1, initial=np.inf)
        found = matcher.probability(torch.from_numpy(np.where(np.isfinite(first), first, 0.0))).numpy()
        return np.where(self.codes < 0, np.nan, np.where(np.isfinite(first), found, 0.0))

    def label_errors(self, matcher: Matcher) -> list[tuple[int, int, float]]:
        """Items that look like those of another label: row, code of that label, and its probability; surest first.

        Each neighbour has odds o of being the same: P(label) = Σ o of its neighbours / (1 + Σ o of all).
        """
        odds = np.exp(matcher.log_odds(torch.from_numpy(self.distances)).clamp(max=50.0).numpy())  # (N, k)
        odds = np.where(self._near >= 0, odds, 0.0)
        # (N, k): the sum over all neighbours with the label of neighbour j
        shared = np.stack([(odds * (self._near == near[:, None])).sum(1) for near in self._near.T], 1)
        probability = shared / (1 + odds.sum(1, keepdims=True))
        best = probability.argmax(1)
        row = np.arange(len(best))
        highest, suggested = probability[row, best], self._near[row, best]
        wrong = np.flatnonzero((self.codes >= 0) & (suggested >= 0) & (suggested != self.codes) & (highest > 0.5))
        wrong = wrong[np.argsort(-highest[wrong], kind="stable")]
        return [(int(one), int(suggested[one]), float(highest[one])) for one in wrong]

    def twins(self) -> list[tuple[int, int, float]]:
        """Pairs that are likely one picture: both rows and their distance, the smallest gap first."""
        limit = TWIN * float(np.median(self.gaps.min(1))) if self.gaps.size else 0.0
        near = self.gaps <= limit
        a, b = np.nonzero(near)[0], self.rows[near]
        columns = self.gaps[near], np.minimum(a, b), np.maximum(a, b), self.distances[near]
        pairs = {one[1:3]: one for one in zip(*(column.tolist() for column in columns), strict=True)}
        return [(first, second, distance) for _, first, second, distance in sorted(pairs.values())]

    @cached_property
    def _near(self) -> np.ndarray:
        return self.codes[self.rows]  # (N, k)


def codes_of(labels: list[str | None]) -> tuple[np.ndarray, list[str]]:
    """A code for each item and the labels that they stand for, sorted; -1 where there is no label."""
    names = sorted({label for label in labels if label is not None})
    codes = {name: code for code, name in enumerate(names)}
    return np.array([-1 if label is None else codes[label] for label in labels], int), names


def review(embedding: Embedding, codes: np.ndarray, *, go_on: Callable[[], None]) -> Neighbourhood:
    """Compare all with all, block by block; before each, `go_on` may raise."""
    found = neighbours(embedding, embedding, leave_one_out=True, depth=NEAREST, before_block=go_on)
    mean = embedding.mean.double().numpy()
    gaps = [np.linalg.norm(mean[row] - mean[near], axis=1) for row, near in enumerate(found.positions)]
    return Neighbourhood(codes, found.positions, found.distances, np.array(gaps).reshape(found.positions.shape))
