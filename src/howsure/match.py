"""The fitted link from a comparison to P(same). A match probability belongs to a `Matcher`, never to an embedding."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from howsure.compare import rms_distance
from howsure.embeddings import Embedding
from howsure.errors import CalibrationError, InputError
from howsure.numerics.logistic import fit_logistic

__all__ = ["Matcher", "match_probability"]


@dataclass(frozen=True)
class Matcher:
    """P(same | distance) = sigmoid(offset - scale · distance), scale > 0, where a share `base_rate` of all pairs match.

    >>> matcher = Matcher(scale=4.0, offset=2.0, base_rate=0.5)
    >>> matcher.probability(torch.tensor([0.0, 0.5, 2.0]))
    tensor([0.8808, 0.5000, 0.0025])
    """

    scale: float
    offset: float
    base_rate: float

    def __post_init__(self) -> None:
        if not (self.scale > 0 and math.isfinite(self.scale) and math.isfinite(self.offset)):
            raise InputError(
                "matcher", expected="a positive scale and a finite offset", got=f"{self.scale}, {self.offset}"
            )
        if not 0 < self.base_rate < 1:
            raise InputError("base rate", expected="a share between 0 and 1", got=str(self.base_rate))

    @classmethod
    def fit(cls, distance: Tensor | np.ndarray, same: Tensor | np.ndarray) -> Matcher:
        """Fit on pairs that the embedder was not trained on; `base_rate` is the share of matching pairs among them."""
        distance, same = np.asarray(distance, float).reshape(-1, 1), np.asarray(same, bool).reshape(-1)
        if len(np.unique(same)) < 2:
            kind = (
                "no pairs at all"
                if not len(same)
                else f"{len(same)} pairs, all {'matching' if same[0] else 'different'}"
            )
            raise CalibrationError(
                "pairs",
                expected="matching and different pairs",
                got=kind,
                fix="hold out at least two classes with two pictures each",
            )
        fitted = fit_logistic(-distance, same)
        if fitted.coefficients[0] <= 0:
            raise CalibrationError(
                "pairs",
                expected="matching pairs nearer than different ones",
                got="no such order in the held-out pairs",
                fix="train the embedder longer, or check the labels",
            )
        return cls(scale=fitted.coefficients[0], offset=fitted.offset, base_rate=float(same.mean()))

    def log_odds(self, distance: Tensor) -> Tensor:
        """logit P(same): falls with distance."""
        return self.offset - self.scale * distance

    def probability(self, distance: Tensor) -> Tensor:
        """P(same) in [0, 1]: falls with distance."""
        return torch.sigmoid(self.log_odds(distance))

    def at(self, base_rate: float) -> Matcher:
        """The same evidence where another share of the pairs match; in a search, few do."""
        if not 0 < base_rate < 1:
            raise InputError("base rate", expected="a share between 0 and 1", got=str(base_rate))
        shift = math.log(base_rate / (1 - base_rate)) - math.log(self.base_rate / (1 - self.base_rate))
        return replace(self, offset=self.offset + shift, base_rate=base_rate)

    def to_json(self) -> dict[str, float]:
        """Plain numbers; `Matcher(**numbers)` gives it back."""
        return asdict(self)


def match_probability(matcher: Matcher, query: Embedding, gallery: Embedding, *, paired: bool = False) -> Tensor:
    """P(same) of every query with every gallery item, (Q, G), or of row with row."""
    return matcher.probability(rms_distance(query, gallery, paired=paired))
