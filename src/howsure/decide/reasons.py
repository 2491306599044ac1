"""Why a query is not answered with a match, by the numbers that decided, and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from howsure.data.quality import CAUSES

REASONS = {
    "poor_image": "the picture itself is poor: take another one",
    "unfamiliar": "it is farther from everything known than 19 of 20 known pictures are",
    "thin_gallery": "an identity that it may be has few or poor references: add pictures of it",
    "conflict": "two identities are likely, and neither is likely enough",
    "unlikely": "the best match is not likely enough",
    "no_close_match": "nothing in the gallery is close enough",
    "gallery_changed": "the promise was made for a gallery of another size: calibrate again",
    "not_calibrated": "the model has no policy yet: run howsure calibrate",
}


@dataclass(frozen=True, eq=False)
class Signs:
    """What speaks for each reason, (Q,) booleans; more than one may hold."""

    poor: np.ndarray  # the pixels say so, or where nobody looked at them the embedding
    far: np.ndarray  # from the training pictures, or from the gallery
    thin: np.ndarray  # an identity near by has few references, or the best match is a poor one
    torn: np.ndarray  # between two identities, one of which it probably is

    def reasons(self) -> list[str]:
        """The first that holds, of each query; the weakest where none does."""
        signs = {"poor_image": self.poor, "unfamiliar": self.far, "thin_gallery": self.thin, "conflict": self.torn}
        named: list[str] = np.select([*signs.values()], [*signs], default="unlikely").tolist()
        return named


def in_words(
    reason: str | None,
    *,
    fault: str | None = None,
    either: float | None = None,
    probability: float | None = None,
    needed: float | None = None,
) -> str:
    """A reason as a person would say it; empty where there is none.

    `fault` is what is wrong with a poor picture, `either` the probability that it is one of the two best identities,
    `probability` that of the best match, and `needed` what an answer takes.

    >>> in_words("poor_image", fault="dark")
    'the picture is too dark: more light'
    >>> in_words("conflict", either=0.812, probability=0.43)
    'it is one of two identities with a probability of 81%, the likelier of them has 43%'
    >>> in_words("unlikely", probability=0.614, needed=0.92)
    'the best match is right with a probability of 61%, an answer needs 92%'
    """
    if reason is None:
        return ""
    if reason == "poor_image" and fault is not None:
        return f"the picture is {CAUSES[fault].words}: {CAUSES[fault].advice}"
    if reason == "conflict" and either is not None and probability is not None:
        two, best = _percent(either), _percent(probability)
        return f"it is one of two identities with a probability of {two}, the likelier of them has {best}"
    if reason == "unlikely" and probability is not None and needed is not None:
        digits = 0 if f"{probability:.0%}" != f"{needed:.0%}" else 2
        best, least = _percent(probability, digits), _percent(needed, digits)
        return f"the best match is right with a probability of {best}, an answer needs {least}"
    return REASONS[reason]


def _percent(probability: float, digits: int = 0) -> str:
    return f"{probability:.{digits}%}"
