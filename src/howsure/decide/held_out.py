"""Held-out queries: which are known, which are hidden; their searches and pairs."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from howsure.compare import rms_distance
from howsure.decide.evidence import DEPTH
from howsure.embeddings import Embedding
from howsure.errors import CalibrationError, InputError
from howsure.match import Matcher
from howsure.neighbours import Neighbours, neighbours
from howsure.numerics.link import folds_of

LEAST = 30
COLUMNS, PAIRS = 2_000, 500_000  # gallery items and pairs looked at
MATCHES, DIFFERENT = 5_000, 5  # matching pairs that are fitted, and how many that differ for each


@dataclass(frozen=True, eq=False)
class SampledPairs:
    """Queries and gallery items they can see, (P,): some that match, and some that differ."""

    row: np.ndarray  # of the query
    distance: np.ndarray
    same: np.ndarray
    base_rate: float  # share of matches among all, before sampling


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Queries in their roles; arrays are (Q,)."""

    query: Embedding
    wanted: np.ndarray  # identities
    hidden: np.ndarray  # bool: searched without their own identity
    known: np.ndarray  # bool: their identity is there to be found
    folds: np.ndarray  # by identity

    @classmethod
    def split(
        cls,
        query: Embedding,
        labels: Sequence[str | None],
        identities: Sequence[str],
        *,
        unknown_rate: float,
        rng: np.random.Generator,
    ) -> HeldOut:
        """Roles at random. Where every query has a mate in the gallery, it is hidden from a share of them."""
        wanted = np.array([*labels], dtype=object)
        enrolled = np.isin(wanted, [*{*identities}])
        hidden = enrolled & (rng.random(len(wanted)) < unknown_rate) if enrolled.all() else np.zeros(len(wanted), bool)
        return cls(query, wanted, hidden, enrolled & ~hidden, folds_of(labels))

    def __getitem__(self, rows: np.ndarray) -> HeldOut:
        return HeldOut(self.query[rows], self.wanted[rows], self.hidden[rows], self.known[rows], self.folds[rows])

    def nearest(self, gallery: Embedding, names: np.ndarray) -> Neighbours:
        """The DEPTH nearest items; a hidden query does not see its own identity."""

        def own(rows: np.ndarray) -> np.ndarray:
            mask: np.ndarray = (self.wanted[rows][:, None] == names) & self.hidden[rows][:, None]
            return mask

        return neighbours(self.query, gallery, depth=DEPTH, hidden=own)

    def references(self, names: np.ndarray) -> np.ndarray:
        """(Q,) how many items of the gallery show each query's identity."""
        counts = Counter(names.tolist())
        return np.array([counts[name] for name in self.wanted])

    def pairs(self, gallery: Embedding, names: np.ndarray, *, different: int, rng: np.random.Generator) -> SampledPairs:
        """Matching pairs of some queries, and `different` times as many others, at random."""
        columns = rng.permutation(len(gallery))[:COLUMNS]
        rows = rng.permutation(len(self.wanted))[: max(1, PAIRS // len(columns))]
        same = self.wanted[rows][:, None] == names[columns]
        seen = ~(same & self.hidden[rows][:, None])
        match, other = (rng.permutation(np.flatnonzero(chosen & seen)) for chosen in (same, ~same))
        rate = len(match) / max(1, len(match) + len(other))
        match = match[:MATCHES]
        row, column = np.divmod(np.concatenate([match, other[: max(1, different * len(match))]]), len(columns))
        query, items = (part.to(dtype=torch.float64) for part in (self.query[rows[row]], gallery[columns[column]]))
        distance = rms_distance(query, items, paired=True).numpy()
        return SampledPairs(rows[row], distance, np.arange(len(row)) < len(match), rate)

    def fit_matcher(self, gallery: Embedding, names: np.ndarray, *, rng: np.random.Generator) -> Matcher:
        """P(same) over pairs of a query and a gallery item it can see, at the rate at which they match there."""
        pairs = self.pairs(gallery, names, different=DIFFERENT, rng=rng)
        return Matcher.fit(pairs.distance, pairs.same, folds=self.folds[pairs.row]).at(pairs.base_rate)


def data_hash(ids: Sequence[str], labels: Sequence[str | None]) -> str:
    """A short name for exactly these queries with these labels, in any order.

    >>> data_hash(["a.png", "b.png"], ["ann", None]) == data_hash(["b.png", "a.png"], [None, "ann"])
    True
    """
    lines = sorted(json.dumps([str(name), label]) for name, label in zip(ids, labels, strict=True))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def check(
    query: Embedding,
    labels: Sequence[str | None],
    gallery: Embedding,
    identities: Sequence[str],
    *,
    unknown_rate: float,
) -> None:
    """Refuse what cannot be calibrated on."""
    if not 0 <= unknown_rate < 1:
        raise InputError("unknown_rate", expected="a share from 0 to below 1", got=str(unknown_rate))
    for name, items, names in (("query", query, labels), ("gallery", gallery, identities)):
        if len(items) != len(names):
            raise InputError(f"{name} labels", expected=str(len(items)), got=str(len(names)))
    if None in identities:
        raise InputError("gallery labels", expected="an identity for every item", got="None among them")
    if len(set(identities)) < 2:
        raise CalibrationError("gallery", expected="two identities or more", got=str(len(set(identities))))
    if not {*labels} & {*identities}:
        fix = "check that labels are written as in the gallery"
        raise CalibrationError("queries", expected="some whose identity the gallery holds", got="none", fix=fix)
    if len(query) < LEAST:
        raise CalibrationError(
            "queries", expected=f"{LEAST} held-out pictures or more", got=str(len(query)), fix="hold out more"
        )
