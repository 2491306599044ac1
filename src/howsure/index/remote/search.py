"""A search of a gallery on a server, by either way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from howsure.embeddings import Embedding
from howsure.errors import GalleryError, InputError
from howsure.index.layout import Layout
from howsure.index.matches import Matches
from howsure.index.ranking.exact import Ranking, rank
from howsure.index.remote.candidates import CANDIDATES, Remote
from howsure.index.remote.completeness import Whole
from howsure.index.remote.contract import Server
from howsure.index.remote.likelihood import SMALL, rank_by_likelihood
from howsure.match import Matcher
from howsure.prior import Prior


def require_ways(k: int, by: str, approximate: bool | None) -> None:
    """Refuse what no search on a server does."""
    if k < 1:
        raise InputError("k", expected="1 or more", got=str(k))
    if by not in ("distance", "likelihood"):
        raise InputError("by", expected="distance or likelihood", got=repr(by))
    if by == "distance" and approximate is not None:
        raise InputError(
            "approximate", expected="None by distance", got=str(approximate), fix="the server decides; `exact` tells"
        )


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
        k = min(self.k, notes["count"])
        if not k or not len(self.query):
            none = np.empty((len(self.query), k))
            return Matches(none.astype(object), none, none.copy() if self.matcher else None, True, 0)
        layout = Layout.from_json(notes["layout"])
        if self.query.dim != layout.dim:
            raise InputError(
                "dimension of the query",
                expected=f"{layout.dim}, as in the gallery",
                got=str(self.query.dim),
                fix="embed both with one model",
            )
        way = self._most_likely if self.by == "likelihood" else self._nearest
        ranking, engine = way(Remote(server, layout, k=k, known=notes["count"]), notes)
        names = [engine.hits[number].id for number in ranking.numbers.ravel().tolist()]
        evidence = ranking.distances if ranking.likelihoods is None else -ranking.likelihoods
        return Matches(
            np.array(names, object).reshape(ranking.numbers.shape),
            ranking.distances,
            self.matcher.probability(torch.from_numpy(evidence)).numpy() if self.matcher else None,
            ranking.exact,
            ranking.candidates,
            likelihoods=ranking.likelihoods,
            recall=None if ranking.likelihoods is None or ranking.exact else _noted(notes)["value"],
        )

    def _nearest(self, engine: Remote, notes: dict[str, Any]) -> tuple[Ranking, Remote]:
        ranking = rank(self.query, engine.k, engine=engine, layout=engine.layout)
        Whole(engine.server).require(notes)
        return ranking, engine

    def _most_likely(self, engine: Remote, notes: dict[str, Any]) -> tuple[Ranking, Remote]:
        prior, whole = _prior(notes), Whole(engine.server)
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
