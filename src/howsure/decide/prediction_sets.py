"""Sets of identities that contain the right one with a stated probability (split conformal prediction)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from howsure.errors import CalibrationError, InputError

SMALLEST = 1e-9  # a distance below is as good as 0
STEEPNESS = 12  # a picture twice as far says 2^-12 as much


@dataclass(frozen=True)
class PredictionSet:
    """Identities that a query may show, the nearest first."""

    identities: tuple[str, ...]
    unknown: bool  # whether it may also be none of the gallery
    probability: float  # with which it contains the right answer, of known and of unknown queries alike


@dataclass(frozen=True)
class SetRule:
    """How far an identity may be behind the best one, and how unlikely a match must be for `unknown` to be open.

    Held-out scores, sorted. Of a known query: how far its identity is `behind`, where it is among the matches. Of an
    unknown one: the score of its best match.
    """

    known: tuple[float, ...]  # the finite ones
    asked: int  # known queries, those among them that were not found
    unknown: tuple[float, ...]

    def sets(
        self, distances: np.ndarray, identities: np.ndarray, score: np.ndarray, *, probability: float
    ) -> list[PredictionSet]:
        """One set a query, from ranked matches (Q, k) and the score of each best match.

        A new query is exchangeable with the held-out ones of its sort, so the right identity is in the set with the
        stated probability, and so is `unknown` where that is right. Without unknowns in calibration it is always open.
        """
        reach = _quantile(self.known, self.asked, probability)
        if not math.isfinite(reach):
            raise CalibrationError(
                "prediction sets",
                expected=f"held-out queries whose identity is among the matches in {probability:.1%} of cases",
                got=f"{len(self.known)} of {self.asked}",
                fix="ask for sets of a smaller probability, or hold out more pictures of known identities",
            )
        open_at = _quantile(self.unknown, len(self.unknown), probability)
        back = behind(distances, identities)
        return [
            PredictionSet(
                tuple(dict.fromkeys(identities[row, back[row] <= reach].tolist())),
                bool(score[row] <= open_at),
                probability,
            )
            for row in range(len(score))
        ]

    @classmethod
    def from_json(cls, keys: dict[str, Any]) -> Self:
        """What `asdict` wrote."""
        return cls(tuple(keys["known"]), keys["asked"], tuple(keys["unknown"]))


def set_rule(
    distances: np.ndarray, identities: np.ndarray, score: np.ndarray, wanted: np.ndarray, known: np.ndarray
) -> SetRule:
    """From held-out queries: ranked matches (Q, k), the score of each best match, and what was right."""
    mine = np.where(identities == wanted[:, None], behind(distances, identities), np.inf).min(1)
    found = np.sort(mine[known])
    return SetRule(tuple(found[np.isfinite(found)].tolist()), len(found), tuple(np.sort(score[~known]).tolist()))


def behind(distances: np.ndarray, identities: np.ndarray) -> np.ndarray:
    """(Q, k) log of how many times as much speaks for the likeliest identity as for that of each match.

    Every picture among the matches speaks for its identity, with distance^-STEEPNESS. That of the best match is never
    behind, so it is in every set. No unit enters, and nothing is fitted.
    """
    nearest = np.maximum(distances, SMALLEST)
    weights = (nearest[:, :1] / nearest) ** STEEPNESS
    spoken = np.zeros(weights.shape)
    for rank in range(weights.shape[1]):
        spoken += np.where(identities == identities[:, [rank]], weights[:, [rank]], 0)
    return np.where(identities == identities[:, :1], 0, np.log(spoken.max(1, keepdims=True) / spoken))


def checked_probability(value: float) -> float:
    """A probability that a set can have."""
    if not 0 < value < 1:
        raise InputError("sets", expected="True, or a probability between 0 and 1", got=str(value))
    return float(value)


def _quantile(scores: tuple[float, ...], asked: int, probability: float) -> float:
    """The held-out score that a new one does not exceed with this probability; infinite where there is none."""
    rank = math.ceil(probability * (asked + 1) - 1e-9)
    return scores[rank - 1] if rank <= len(scores) else math.inf
