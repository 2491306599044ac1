"""When a query hangs between two identities: one of the two it is, but which?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import expit

from howsure.decide.evidence import FEATURES, Evidence
from howsure.decide.probability import link_from_json, meaning_of
from howsure.numerics.link import Link
from howsure.numerics.logistic import Logistic

MISTAKEN = 0.02  # of the unknown queries without an answer, at most this share is called a conflict


@dataclass(frozen=True)
class Conflict:
    """P(it is one of the two best identities), and from which on that is worth saying.

    The evidence is what the matches would be evidence of if the two best identities were one.
    """

    link: Link
    at_least: float

    def log_odds(self, either: Evidence) -> np.ndarray:
        """That it is one of the two, (Q,)."""
        return self.link.log_odds(self.link.score(either.features()))

    @classmethod
    def from_json(cls, keys: Mapping[str, Any]) -> Self:
        """What `asdict` wrote."""
        return cls(link_from_json(keys["link"], len(FEATURES)), keys["at_least"])


def fit_conflict(
    score: Logistic, either: Evidence, in_two: np.ndarray, *, folds: np.ndarray, strangers: np.ndarray, needed: float
) -> Conflict:
    """From held-out queries: which show one of their two best identities, and which unknown ones get no answer, (Q,).

    What is called a conflict is as likely as a match must be, and likelier than for nearly all of the unknown ones.
    """
    meaning = meaning_of(score.log_odds(either.features()), in_two, folds)
    (slope,), shift = meaning.logistic.coefficients, meaning.logistic.offset
    found = Conflict(Link(score.rescaled(slope, shift), meaning.steps), needed)
    theirs = expit(found.log_odds(either)[strangers])
    limit = float(np.quantile(theirs, 1 - MISTAKEN)) if len(theirs) else needed
    return Conflict(found.link, max(needed, limit))
