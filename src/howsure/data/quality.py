"""How good a picture is, among the pictures of one user: a probability, and the fault of a poor one.

A blurred picture of something known lies as far from everything as a picture of something unknown: embeddings alone
cannot tell them apart. This judges the picture itself, by `measure`, and knows no model and no identity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from PIL import Image

from howsure.data.corruptions import KINDS, RESOLUTION, SEVERITIES
from howsure.data.images import ImageSet
from howsure.data.measures import MEASURES, measure, reduced
from howsure.errors import CalibrationError, DataError, InputError
from howsure.numerics.logistic import Logistic, fit_logistic
from howsure.numerics.typical import Typical, fit_typical

POOR = 0.05  # of pictures like those it was fitted on, at most this share is called poor
CLEARLY = 0.01  # and about this share clearly so
ENOUGH = math.ceil(1 / POOR) - 1  # pictures that a limit takes
LEAST = 2 * ENOUGH  # of a set
MOST = 600  # pictures measured; more say nothing new
NAMED = 2.5  # standard deviations from which on a fault has a name
CLEAR = 0.8  # a fault nearly as large as the largest leaves open which it is
FAULTS = ("noise", "blur", "occlusion", "contrast", "resolution", "jpeg", "darkness", "overexposure")


@dataclass(frozen=True)
class Cause:
    """A fault in words, what to do about it, and the measures that show it, with the sign of their deviation."""

    words: str
    advice: str
    shown_by: tuple[tuple[str, int], ...]


PLACE = {each.name: place for place, each in enumerate(MEASURES)}
CAUSES = {
    "blurred": Cause("too blurred", "hold the camera still and focus", (("sharpness", 1), ("coarse_sharpness", 1))),
    "dark": Cause("too dark", "more light", (("exposure", -1),)),
    "overexposed": Cause("too bright", "less light", (("exposure", 1), ("burnt", 1))),
    "small": Cause("too small", "move closer or use a larger picture", (("size", 1),)),
    "noisy": Cause("too noisy", "more light", (("noise", 1),)),
    "low_contrast": Cause("too little contrast", "avoid haze and glare, and clean the lens", (("contrast", 1),)),
    "compressed": Cause("compressed too much", "use the original file", (("blockiness", 1),)),
    "obscured": Cause("partly hidden", "clear what covers the picture", (("patch", 1),)),
}


@dataclass(frozen=True)
class Quality:
    """What good pictures of one user measure, from which distance on a picture is poor, and what a distance means."""

    side: int  # of the model's input, for which pictures are measured
    typical: Typical
    limit: float
    clear_limit: float
    link: Logistic

    def measure(self, image: Image.Image) -> np.ndarray:
        """`MEASURES` of a picture as this model sees it, (M,)."""
        return measure(image, side=self.side)

    def probability(self, measurements: np.ndarray) -> np.ndarray:
        """(n, M) to (n,): P(as good as those it was fitted on), if that were as likely as a fault."""
        return self.link.probability(-self.typical.distance(_checked(measurements))[:, None])

    def poor(self, measurements: np.ndarray) -> np.ndarray:
        """(n, M) to (n,) booleans: worse than 95 % of those it was fitted on."""
        return self.typical.distance(_checked(measurements)) > self.limit

    def clearly_poor(self, measurements: np.ndarray) -> np.ndarray:
        """(n, M) to (n,) booleans: worse than 99 % of those it was fitted on, or than all where they were few."""
        return self.typical.distance(_checked(measurements)) > self.clear_limit

    def causes(self, measurements: np.ndarray) -> list[str | None]:
        """(n, M) to n keys of `CAUSES`: the main fault of a poor picture; None for a fine one, or if it is unclear."""
        worse = self.typical.deviations(_checked(measurements))
        return [_main(row) if poor else None for row, poor in zip(worse, self.poor(measurements), strict=True)]

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, keys: Mapping[str, Any]) -> Self:
        """What `to_json` wrote; a missing key is an error."""
        try:
            link = Logistic(tuple(keys["link"]["coefficients"]), keys["link"]["offset"])
            return cls(keys["side"], Typical.from_json(keys["typical"]), keys["limit"], keys["clear_limit"], link)
        except (KeyError, TypeError) as error:
            raise InputError("quality", expected="what to_json wrote", got=f"no {error}") from None


def fit_quality(images: ImageSet, *, side: int, seed: int = 0) -> Quality:
    """From a user's own pictures, a few of which may be poor, for a model whose shorter side is `side` pixels.

    Every other picture, drawn by lot, says what is typical. Those between set the limit and, beside a faulty version of
    each for every kind of fault, at a severity drawn by lot, the probability. Unreadable pictures are left out.

    >>> from howsure.data import load
    >>> quality = fit_quality(load("digits:train").subset(range(60)), side=8)
    >>> black = Image.new("L", (8, 8))
    >>> quality.poor(quality.measure(black)[None])
    array([ True])
    """
    rng = np.random.default_rng(seed)
    typical: list[np.ndarray] = []
    held: list[np.ndarray] = []
    faulty: list[np.ndarray] = []
    for picture in _readable(images, rng.permutation(len(images))[:MOST]):
        found = measure(picture, side=side)
        if len(typical) <= len(held):
            typical.append(found)
        else:
            held.append(found)
            faulty += [measure(worse, side=side) for worse in _faults(reduced(picture, side), rng)]
    if len(held) < ENOUGH:
        got = f"{len(typical) + len(held)} in {images.name}"
        raise CalibrationError("pictures", expected=f"at least {LEAST}", got=got, fix="add good pictures")
    return quality_from(np.array(typical), np.array(held), np.array(faulty), side=side)


def quality_from(typical: np.ndarray, held: np.ndarray, faulty: np.ndarray, *, side: int) -> Quality:
    """From (n, M) measurements: of pictures that say what is typical, of others like them, and of faulty ones.

    The limit is conformal: a picture exchangeable with `held` is farther with a probability of at most 5 %.
    """
    if len(held) < ENOUGH:
        raise CalibrationError("held-out pictures", expected=f"at least {ENOUGH}", got=str(len(held)))
    worse, least = [each.worse for each in MEASURES], [each.least for each in MEASURES]
    known = fit_typical(_checked(typical), worse, least=least)
    fine, poor = (known.distance(_checked(part)) for part in (held, faulty))
    link = fit_logistic(-np.append(fine, poor)[:, None], np.arange(len(fine) + len(poor)) < len(fine))
    even = replace(link, offset=link.offset + math.log(len(poor) / len(fine)))  # as if there were as many of both
    ranks = (math.ceil((1 - share) * (len(fine) + 1)) for share in (POOR, CLEARLY))
    limit, clear = (float(np.sort(fine)[min(rank, len(fine)) - 1]) for rank in ranks)
    return Quality(side, known, limit, clear, even)


def _readable(images: ImageSet, rows: Iterable[int]) -> Iterator[Image.Image]:
    for row in rows:
        with suppress(DataError):
            yield images.image(int(row))


def _faults(picture: Image.Image, rng: np.random.Generator) -> Iterator[Image.Image]:
    """One version for every kind of fault, each at a severity of its own."""
    for kind in FAULTS:
        yield KINDS[kind](picture, int(rng.integers(len(SEVERITIES))), rng)
    share = RESOLUTION[rng.integers(len(RESOLUTION))]
    small = [max(1, round(share * length)) for length in picture.size]
    yield picture.resize((small[0], small[1]), Image.Resampling.BOX)


def _main(deviations: np.ndarray) -> str | None:
    sizes = {
        name: max(sign * deviations[PLACE[measure]] for measure, sign in cause.shown_by)
        for name, cause in CAUSES.items()
    }
    # What is blurred or burnt out has lost contrast too, but not the other way round.
    if sizes["blurred"] >= NAMED or deviations[PLACE["burnt"]] >= NAMED:
        del sizes["low_contrast"]
    first, second = sorted(sizes, key=lambda name: -sizes[name])[:2]
    return first if sizes[first] >= NAMED and sizes[second] < CLEAR * sizes[first] else None


def _checked(measurements: np.ndarray) -> np.ndarray:
    values = np.asarray(measurements, float)
    if values.ndim != 2 or values.shape[1] != len(MEASURES) or not np.isfinite(values).all():
        raise InputError("measurements", expected=f"(n, {len(MEASURES)}), finite", got=str(values.shape))
    return values
