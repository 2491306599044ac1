"""The three answers, and the reasons for not being sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["match", "unknown", "not_sure"]

REASONS = {
    "unfamiliar": "unlike anything the model knows",
    "poor_image": "the picture itself is ambiguous: take another one",
    "conflict": "several identities are about equally likely",
    "thin_gallery": "its references are few or poor: add pictures of it",
    "no_close_match": "nothing in the gallery is close enough",
    "not_calibrated": "the model has no policy yet: run howsure calibrate",
}


@dataclass(frozen=True)
class Answer:
    """What to tell the user about one query."""

    kind: Kind
    reason: str | None  # a key of REASONS; None for a match
    probability: float | None  # P(the best match is right); None while the model is not calibrated
    none: float | None = None  # P(nothing in the gallery is it); None where calibration met no unknowns
