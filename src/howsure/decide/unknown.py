"""When to say that a query is nothing in the gallery: it is farther off than known queries are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from howsure.decide.evidence import Evidence


@dataclass(frozen=True)
class UnknownRule:
    """Unknown beyond a remoteness, or beyond a novelty where the embedding keeps one."""

    remoteness: float
    novelty: float | None
    rank: int  # of each limit among the known queries, the largest first
    known: int  # queries that it was made of

    def holds(self, evidence: Evidence) -> np.ndarray:
        """Which queries are farther off than the rule allows, (Q,)."""
        far: np.ndarray = evidence.remoteness > self.remoteness
        return far if self.novelty is None else far | (evidence.novelty > self.novelty)

    @property
    def on_average(self) -> float:
        """The share of known queries called unknown is at most this, on average over held-out queries."""
        return (1 if self.novelty is None else 2) * self.rank / (self.known + 1)


def unknown_rule(known: Evidence, *, at_most: float, has_novelty: bool) -> UnknownRule | None:
    """The rule that calls at most a share `at_most` of queries like these known ones unknown.

    A new known query is exchangeable with the n held-out ones, so its score is above the k-th largest of theirs with
    probability k/(n + 1) at most, whatever the score (split conformal). Two scores have half of it each. None where n
    is below 1/at_most - 1: then not even the largest will do.
    """
    n, scores = len(known.remoteness), 2 if has_novelty else 1
    rank = int(np.floor(at_most / scores * (n + 1) + 1e-9))
    if rank < 1:
        return None
    remoteness, novelty = (float(np.sort(values)[-rank]) for values in (known.remoteness, known.novelty))
    return UnknownRule(remoteness, novelty if has_novelty else None, rank, n)
