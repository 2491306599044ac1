"""From held-out queries and a gallery to the score that decides, without looking at the queries that will test it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from howsure.decide.candidates import Candidate, Lesson, candidates, choose, steadied
from howsure.decide.certify import grid_of
from howsure.decide.evidence import FEATURES
from howsure.decide.held_out import HeldOut
from howsure.decide.practice import Practice
from howsure.decide.searched import Ranking, Searched, ranked, searched
from howsure.embeddings import Embedding
from howsure.neighbours import Neighbours
from howsure.numerics.logistic import Logistic

# Held-out queries that fit too: none of a few, since practice queries do it as well; a part of many, since they are
# better than those of a gallery that the model was trained on; more where the gallery cannot teach.
MANY, SOME_OF_MANY, WITHOUT_PRACTICE = 1_000, 0.1, 1 / 3
HIDDEN = 0.2  # of the practice queries, where held-out ones bring unknowns
UNIT = 0.1  # of the distance to the nearest item


@dataclass(frozen=True, eq=False)
class Learned:
    """The score, and all held-out queries as it sees them."""

    candidate: Candidate
    score: Logistic  # log-odds of a right answer, over all features
    unit: float
    held: Searched
    right: np.ndarray  # (Q,) bool
    fit: np.ndarray  # rows of the queries that it was fitted to, too
    test: np.ndarray  # rows of all others
    grid: np.ndarray  # thresholds on minus the score
    foreseen: dict[str, float]  # AURC of every candidate

    @cached_property
    def scores(self) -> np.ndarray:
        """(Q,) of every held-out query, in any role."""
        return self.score.log_odds(self.held.evidence.features())


@dataclass(frozen=True, eq=False)
class Ways:
    """Practice queries and held-out ones, searched in every way that a candidate ranks."""

    candidates: tuple[Candidate, ...]
    practice: Practice
    identity: np.ndarray  # (P,) of each practice query
    units: dict[Ranking, float]
    practised: dict[Ranking, Searched]
    held: dict[Ranking, Searched]

    @classmethod
    def of(
        cls, held: HeldOut, gallery: Embedding, names: np.ndarray, *, unknown_rate: float, rng: np.random.Generator
    ) -> Ways:
        """By brute force; what `learn` does with it is quick."""
        met = not (held.known | held.hidden).all()  # unknowns of their own, so nothing was hidden at `unknown_rate`
        practice = Practice.draw(names, unknown_rate=HIDDEN if met else unknown_rate, rng=rng)
        options = candidates(points=not (held.query.uncertainty.any() or gallery.uncertainty.any()))
        ways = cls(options, practice, names[practice.rows], {}, {}, {})
        for by in dict.fromkeys(one.by for one in options):
            items = ranked(gallery, by)
            near = practice.nearest(items, names)
            asked = replace(held, query=ranked(held.query, by)).nearest(items, names)
            ways.units[by] = unit = _unit(near)
            ways.practised[by] = searched(gallery[practice.rows], gallery, names, near, by=by, unit=unit)
            ways.held[by] = searched(held.query, gallery, names, asked, by=by, unit=unit)
        return ways

    def right_in_practice(self, by: Ranking) -> np.ndarray:
        """(P,) whether the best match of each practice query is of its identity."""
        return self.practice.known & (self.practised[by].best == self.identity)

    def only(self, rows: np.ndarray) -> Ways:
        """With these of the held-out queries."""
        return replace(self, held={by: done[rows] for by, done in self.held.items()})


def learn(ways: Ways, held: HeldOut, *, rng: np.random.Generator) -> Learned:
    """Fit every candidate to practice queries, and to some held-out ones where that pays; keep the one that is best.

    AURC is foreseen by folds, so the choice looks at nothing that tests.
    """
    teaches = all(ways.practice.teaches(ways.right_in_practice(by)) for by in ways.units)
    share = WITHOUT_PRACTICE if not teaches else SOME_OF_MANY if len(held.wanted) >= MANY else 0.0
    fit, test = np.split(rng.permutation(len(held.wanted)), [round(share * len(held.wanted))])
    right = {by: held.known & (done.best == held.wanted) for by, done in ways.held.items()}

    def lesson(by: Ranking) -> Lesson:
        own = Lesson(ways.held[by].evidence[fit].features(), right[by][fit], held.folds[fit])
        if not teaches:
            return own
        taught = Lesson(ways.practised[by].evidence.features(), ways.right_in_practice(by), ways.practice.folds)
        return taught.joined(own.repeated(_times(len(taught.right), len(fit))))

    lessons = {by: lesson(by) for by in ways.units}
    if any(one.right.all() or not one.right.any() for one in lessons.values()):
        # Nothing to learn: the nearer, the likelier.
        candidate, foreseen = ways.candidates[-1], {ways.candidates[-1].words: 0.0}
        nearer = tuple((1 / ways.units[candidate.by] if name == "distance" else 0.0) for name in FEATURES)
        score = Logistic(nearer, 0.0)
    else:
        candidate, foreseen = choose({one: lessons[one.by] for one in ways.candidates})
        score = steadied(candidate, lessons[candidate.by])
    by = candidate.by
    seen = np.concatenate([ways.practised[by].evidence.features(), ways.held[by].evidence[fit].features()])
    grid = grid_of(-score.log_odds(seen))
    return Learned(candidate, score, ways.units[by], ways.held[by], right[by], fit, test, grid, foreseen)


def _unit(near: Neighbours) -> float:
    typical = float(np.median(near.distances[:, 0]))
    return UNIT * typical if typical > 0 else 1.0


def _times(taught: int, own: int) -> int:
    """So that held-out queries count about half as much as all practice queries together."""
    return max(1, round(taught / (2 * own))) if own else 1
