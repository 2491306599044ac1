"""A query that was drawn by lot, the verdict on it, and what a certificate tells of such queries."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from howsure.errors import InputError
from howsure.index import Item

if TYPE_CHECKING:
    from howsure.decide.answer import Kind

LONGEST = 256  # characters of a label


@dataclass(frozen=True)
class Verdict:
    """What a person says that a query shows: an identity, one that the gallery lacks, or nothing that can be told."""

    kind: Literal["label", "unknown", "unclear"]
    label: str | None = None

    def __post_init__(self) -> None:
        label = self.label
        if (self.kind == "label") != (label is not None):
            raise InputError("verdict", expected="a label, or unknown, or unclear", got=f"{self.kind} and {label!r}")
        if label is not None and (not label.strip() or len(label) > LONGEST or _has_control(label)):
            expected = f"1 to {LONGEST} characters, no control characters"
            raise InputError("label", expected=expected, got=ascii(label)[:60])


@dataclass(frozen=True)
class DrawnQuery:
    """A query that was drawn, what was answered then, and what a person says it shows."""

    id: str  # its number in the order of drawing
    name: str  # as it was asked
    path: str | None  # of its picture, where it has a file
    drawn: str  # when, in UTC
    rate: float  # with which probability
    answer: Kind
    best: str | None  # label of the best match, or its id
    verdict: Verdict | None

    @classmethod
    def from_item(cls, item: Item) -> DrawnQuery:
        """As it is kept."""
        kept = dict(item.metadata)
        verdict = Verdict(kept["verdict"], item.label) if kept.get("verdict") else None
        names = ("name", "path", "drawn", "rate", "answer", "best")
        return cls(item.id, **{name: kept[name] for name in names}, verdict=verdict)


@dataclass(frozen=True)
class Audited:
    """Where the queries of a calibration came from, if they were drawn by lot in use."""

    drawn: int
    used: int  # in the order of drawing, up to the first without a verdict
    waiting: int  # verdicts behind that one
    since: str  # when the first and the last that was used were drawn
    until: str
    rates: tuple[float, ...]

    @classmethod
    def of(cls, used: Sequence[DrawnQuery], *, drawn: int, waiting: int) -> Audited:
        """Of the queries that were used, in order, among so many drawn."""
        rates = tuple(sorted({one.rate for one in used}))
        return cls(drawn, len(used), waiting, used[0].drawn, used[-1].drawn, rates)

    @classmethod
    def from_json(cls, keys: Mapping[str, Any]) -> Audited:
        """What `asdict` wrote."""
        return cls(**{**keys, "rates": tuple(keys["rates"])})


def _has_control(text: str) -> bool:
    return any(unicodedata.category(character) in ("Cc", "Cs") for character in text)
