"""Count answers, right and wrong, of several ways to answer the same queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from howsure.compare import expected_similarity
from howsure.decide.ask import Finding
from howsure.decide.certify import grid_of, widest_threshold
from howsure.embeddings import Embedding, point_estimates
from howsure.neighbours import neighbours

PLANS = 0.1


@dataclass(frozen=True)
class Tally:
    """How many queries were asked, answered, and answered wrongly."""

    asked: int
    answered: int
    wrong: int

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.asked + other.asked, self.answered + other.answered, self.wrong + other.wrong)

    @property
    def coverage(self) -> float:
        """Share of the queries that got an answer."""
        return self.answered / self.asked if self.asked else 0.0

    @property
    def error(self) -> float | None:
        """Share of the answers that are wrong; None where there are none."""
        return self.wrong / self.answered if self.answered else None


@dataclass(frozen=True)
class Row:
    """One way to answer, and its tally for every group of queries."""

    name: str
    tallies: dict[str, Tally]

    def over(self, *groups: str) -> Tally:
        """The tally of several groups together."""
        return sum((self.tallies[group] for group in groups), Tally(0, 0, 0))


@dataclass(frozen=True, eq=False)
class Verdicts:
    """For every query: was there an answer, and was it wrong?"""

    answered: np.ndarray  # (Q,) bool
    wrong: np.ndarray  # (Q,) bool, only where answered

    def tally(self, rows: np.ndarray) -> Tally:
        """Of the queries that a mask chooses."""
        return Tally(int(rows.sum()), int(self.answered[rows].sum()), int(self.wrong[rows].sum()))


@dataclass(frozen=True, eq=False)
class Nearest:
    """A search by point estimates: the nearest identity, its similarity, its lead over the next identity."""

    identity: np.ndarray  # (Q,)
    similarity: np.ndarray  # (Q,)
    margin: np.ndarray  # (Q,)


def nearest(query: Embedding, gallery: Embedding, identities: Sequence[str]) -> Nearest:
    """The nearest gallery item of each query by point estimates: no uncertainty takes part."""
    names, queries, items = np.asarray(identities), point_estimates(query), point_estimates(gallery)
    best = neighbours(queries, items, depth=1).positions[:, 0]
    other = neighbours(queries, items, depth=1, hidden=lambda rows: names == names[best[rows]][:, None])
    top = _similarity(query, gallery, best)
    alone = np.isinf(other.distances[:, 0])
    return Nearest(names[best], top, np.where(alone, np.inf, top - _similarity(query, gallery, other.positions[:, 0])))


def _similarity(query: Embedding, gallery: Embedding, rows: np.ndarray) -> np.ndarray:
    return expected_similarity(query, gallery[rows], paired=True).double().numpy()


def certified_threshold(
    uncertainty: np.ndarray, error: np.ndarray, *, max_error: float, confidence: float, seed: int
) -> float | None:
    """The widest threshold on any score that can be proved as howsure's own is; None if none can.

    A tenth of the items fixes which thresholds there are, the others test them.
    """
    fit, test = np.split(np.random.default_rng(seed).permutation(len(error)), [round(PLANS * len(error))])
    grid = grid_of(uncertainty[fit])
    proved = widest_threshold(uncertainty[test], error[test], grid, max_error=max_error, confidence=confidence)
    return proved.threshold if proved else None


def verdicts_of(
    findings: Sequence[Finding], labels: Sequence[str | None], *, unknown: Sequence[bool] | np.ndarray
) -> Verdicts:
    """Judge answers: a match must name the label, `unknown` is right where the label is in no gallery."""
    kinds = np.array([finding.answer.kind for finding in findings])
    named = np.array([finding.matches[0].label if finding.matches else None for finding in findings], dtype=object)
    missing = np.asarray(unknown, bool)
    matched_wrongly = (kinds == "match") & ((named != np.asarray(labels, dtype=object)) | missing)
    return Verdicts(kinds != "not_sure", matched_wrongly | ((kinds == "unknown") & ~missing))


def rows_of(verdicts: dict[str, Verdicts], groups: Sequence[str]) -> tuple[Row, ...]:
    """One row a way to answer; `groups` names the group of every query."""
    members = {group: np.asarray(groups) == group for group in dict.fromkeys(groups)}
    return tuple(
        Row(name, {group: given.tally(rows) for group, rows in members.items()}) for name, given in verdicts.items()
    )
