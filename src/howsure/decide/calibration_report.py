"""Does a probability mean what it says?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from howsure.metrics import brier, ece, reliability

__all__ = ["NONE", "RIGHT", "SAME", "CalibrationReport"]

SAME = "a query and an item show the same, where half of the pairs do"
RIGHT = "the best match is right"
NONE = "nothing in the gallery is it"
BINS = 15


@dataclass(frozen=True)
class CalibrationReport:
    """How well the probability of an event, as told, agrees with how often it happens."""

    event: str
    link: str  # logistic or isotonic
    ece: float  # 15 equal-width bins, the last closed
    brier: float
    rate: float  # how often the event happened
    n: int
    reliability: tuple[tuple[float, float, int], ...]  # of each bin: mean probability, how often it happened, cases

    @classmethod
    def judged(
        cls, event: str, probability: np.ndarray, outcome: np.ndarray, *, isotonic: bool
    ) -> CalibrationReport | None:
        """From (n,) probabilities and what happened; NaN is left out, and if nothing else is there, None."""
        told = np.isfinite(probability)
        if not told.any():
            return None
        p, y = probability[told], outcome[told]
        curve = reliability(p, y, bins=BINS)
        points = zip(curve.confidence.tolist(), curve.accuracy.tolist(), curve.count.tolist(), strict=True)
        return cls(
            event=event,
            link="isotonic" if isotonic else "logistic",
            ece=ece(p, y, bins=BINS),
            brier=brier(p, y),
            rate=float(y.mean()),
            n=len(y),
            reliability=tuple(points),
        )

    @classmethod
    def from_json(cls, keys: dict[str, Any]) -> CalibrationReport:
        """What `asdict` wrote."""
        return cls(**keys | {"reliability": tuple((p, share, count) for p, share, count in keys["reliability"])})
