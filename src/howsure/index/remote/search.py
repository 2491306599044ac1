"""A search of a gallery on a server, by either way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from howsure.embeddings import Embedding
from howsure.errors import GalleryError, InputError
from howsure.index.layout import Layout
from howsure.index.matches import Matches, pair_probabilities, require_dim
from howsure.index.ranking.exact import Ranking, rank
from howsure.index.remote.candidates import CANDIDATES, Remote
from howsure.index.remote.completeness import Completeness
from howsure.index.remote.contract import Server
from howsure.index.remote.likelihood import SMALL, rank_by_likelihood
from howsure.match import Matcher
from howsure.prior import Prior


@dataclass(frozen=True, eq=False)
class RemoteSearch:
    """Q queries in float64 for the k best items; `approximate` is None by distance."""

    query: Embedding
    k: int
    matcher: Matcher | None
    by: str
    approximate: bool | None
    candidates: int | None = None  # None for as many as are noted

    def run(self, server: Server, notes: dict[str, Any]) -> Matches:
        """The matches in a gallery of these notes."""
        if self.by == "distance" and self.approximate is not None:
            raise InputError(
                "approximate",
                expected="None by distance",
                got=str(self.approximate),
                fix="the server decides; `exact` tells",
            )
        k = min(self.k, notes["count"])
        if not k or not len(self.query):
            return Matches.none(len(self.query), k, self.matcher)
        layout = Layout.from_json(notes["layout"])
        require_dim(self.query, layout)
        way = self._most_likely if self.by == "likelihood" else self._nearest
        ranking, engine = way(Remote(server, layout, k=k, known=notes["count"]), notes)
        shape, numbers = ranking.numbers.shape, ranking.numbers.ravel().tolist()
        ids = np.array([engine.hits[number].id for number in numbers], object).reshape(shape)
        labels = engine.labels(ids)
        first = labels[:, 0].tolist()
        counts = server.label_counts({label for label in first if label is not None})
        return Matches(
            ids,
            labels,
            ranking.distances,
            pair_probabilities(self.matcher, ranking.distances, ranking.likelihoods),
            layout.unpack(engine.records(ranking.numbers[:, 0])).uncertainty.double().numpy(),
            np.array([1 if label is None else counts.get(label, 0) for label in first]),
            ranking.exact,
            ranking.candidates,
            likelihoods=ranking.likelihoods,
            recall=None if ranking.likelihoods is None or ranking.exact else _noted(notes)["value"],
        )

    def _nearest(self, engine: Remote, notes: dict[str, Any]) -> tuple[Ranking, Remote]:
        ranking = rank(self.query, engine.k, engine=engine, layout=engine.layout)
        Completeness(engine.server).require(notes)
        return ranking, engine

    def _most_likely(self, engine: Remote, notes: dict[str, Any]) -> tuple[Ranking, Remote]:
        prior, whole = _prior(notes), Completeness(engine.server)
        small = notes["count"] <= SMALL and not self.approximate
        if small or self.approximate is False:
            rows = engine.server.scan(moments=True)
            ranking = rank_by_likelihood(self.query, engine.k, engine=engine, prior=prior, rows=rows)
            whole.require_count(notes, ranking.candidates)
            return ranking, engine
        engine = engine.among(_shrunk(notes), self.candidates or _noted(notes)["candidates"])
        ranking = rank_by_likelihood(self.query, engine.k, engine=engine, prior=prior, rows=None)
        if whole.require(notes, shrunk=engine.shrunk) > whole.require(notes):
            # A change that failed has left some among the shrunk means that are no items.
            engine = replace(engine, doubted=True)
            ranking = rank_by_likelihood(self.query, engine.k, engine=engine, prior=prior, rows=None)
        return ranking, engine


def _prior(notes: dict[str, Any]) -> Prior:
    if not notes["prior"]:
        raise GalleryError(
            "search by likelihood",
            expected="a prior over identities",
            got="none in this gallery",
            fix="index.set_prior(Prior.fit(embedding, labels)) with pictures of known identities",
        )
    return Prior.from_json(notes["prior"])


def _shrunk(notes: dict[str, Any]) -> str:
    if not notes.get("shrunk"):
        raise GalleryError(
            "search by likelihood",
            expected="shrunk means of the items",
            got=f"none in a gallery of version {notes['schema']} of the format",
            fix="open it with connect(url, write=True) and make them once: index.set_prior(index.prior)",
        )
    return str(notes["shrunk"])


def _noted(notes: dict[str, Any]) -> dict[str, Any]:
    """What `estimated_recall` found."""
    return notes.get("recall") or {"value": None, "candidates": CANDIDATES}
