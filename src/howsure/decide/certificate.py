"""What was promised, on what evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from howsure.decide.drawn_query import Audited
from howsure.decide.seen import Seen
from howsure.errors import InputError


@dataclass(frozen=True)
class Wanted:
    """What an operator tolerates; each is a share."""

    max_error: float = 0.01  # of the answers `match` are wrong
    confidence: float = 0.95
    max_false_unknown: float = 0.01  # of the queries whose identity is there are called `unknown`
    max_false_match: float | None = None  # of the queries whose identity is not there get a `match`

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not 0 < value < 1:
                raise InputError(name, expected="a share between 0 and 1", got=str(value))


@dataclass(frozen=True)
class Promise:
    """A rate that stays at or below `at_most`, for queries like those it was tested on."""

    at_most: float
    bound: float  # what was proved; at most `at_most`
    confidence: float | None  # with which the bound holds; None: on average over held-out queries
    events: int  # among the n that it rests on
    n: int


@dataclass(frozen=True)
class Certificate:
    """Promises about queries like the held-out ones, in this gallery; it counts pictures, not identities."""

    error: Promise  # of wrong ones among the answers `match`
    false_unknown: Promise | None  # of `unknown` among queries whose identity is there; None: too few of them
    false_match: Promise | None  # of `match` among queries whose identity is not there; None: not asked for
    match_coverage: float  # share of the queries that get a `match`
    unknown_coverage: float  # and `unknown`
    false_match_rate: float | None  # seen among queries whose identity is not there; None: there were none
    false_non_match_rate: float | None  # without a right match, seen among those whose identity is there
    n: int  # held-out queries that tested it
    asked_identities: int  # of the known ones among them
    unknown_rate: float  # share of them without a mate in the gallery
    gallery: int  # items they were searched in
    identities: int  # of these items
    data: str  # hash of the held-out queries, names and labels
    made: str  # date
    changes: int | None = None  # state of the gallery that it was made in; None where it is not known
    seen: Seen | None = None  # which of the held-out items had been shown before; None where nobody looked
    audit: Audited | None = None  # how the held-out queries were drawn in use; None where others were given

    @property
    def max_error(self) -> float:
        """The tolerated error among matches."""
        return self.error.at_most

    @property
    def confidence(self) -> float:
        """With which the error among matches stays below its bound."""
        return self.error.confidence or 0.0

    @property
    def error_bound(self) -> float:
        """Upper bound on the error among matches, at that confidence."""
        return self.error.bound

    @property
    def coverage(self) -> float:
        """Share of the queries that get an answer: match or unknown."""
        return self.match_coverage + self.unknown_coverage

    @classmethod
    def from_json(cls, keys: dict[str, Any]) -> Certificate:
        """What `asdict` wrote."""
        promises = {name: keys[name] and Promise(**keys[name]) for name in ("error", "false_unknown", "false_match")}
        audit = keys.get("audit") and Audited.from_json(keys["audit"])
        return cls(**keys | promises | {"seen": keys["seen"] and Seen.from_json(keys["seen"]), "audit": audit})
