"""Fit what probabilities need, on some of the held-out queries, and judge it on others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from howsure.compare import rms_distance
from howsure.decide.calibration_report import NONE, RIGHT, SAME, CalibrationReport
from howsure.decide.evidence import Evidence
from howsure.decide.held_out import HeldOut
from howsure.decide.probability import AnswerProbabilities, UnknownRange, both_ways
from howsure.embeddings import Embedding
from howsure.match import Matcher
from howsure.numerics.link import Link, crossed, fit_link
from howsure.numerics.logistic import Logistic, fit_logistic

COLUMNS, PAIRS = 2_000, 500_000  # gallery items and pairs looked at
MATCHES, DIFFERENT = 5_000, 5  # matching pairs that are fitted, and how many that differ for each
PRIOR_SCALE = 1.0  # of the features' coefficients: they say much the same, so none need be large
ABSENT_SCALE = 3.0


@dataclass(frozen=True, eq=False)
class SampledPairs:
    """Queries and gallery items they can see, (P,): some that match, and some that differ."""

    row: np.ndarray  # of the query
    distance: np.ndarray
    same: np.ndarray
    base_rate: float  # share of matches among all, before the lot


def pairs_of(
    held: HeldOut, rows: np.ndarray, gallery: Embedding, names: np.ndarray, *, different: int, rng: np.random.Generator
) -> SampledPairs:
    """Matching pairs of these queries, and `different` times as many others, by lot."""
    columns = rng.permutation(len(gallery))[:COLUMNS]
    rows = rows[: max(1, PAIRS // len(columns))]
    same = held.wanted[rows][:, None] == names[columns]
    seen = ~(same & held.hidden[rows][:, None])
    match, other = (rng.permutation(np.flatnonzero(kind & seen)) for kind in (same, ~same))
    rate = len(match) / max(1, len(match) + len(other))
    match = match[:MATCHES]
    row, column = np.divmod(np.concatenate([match, other[: max(1, different * len(match))]]), len(columns))
    place = rows[row]
    query, items = (belief.to(dtype=torch.float64) for belief in (held.query[place], gallery[columns[column]]))
    distance = rms_distance(query, items, paired=True).numpy()
    return SampledPairs(place, distance, np.arange(len(row)) < len(match), rate)


def fit_matcher(held: HeldOut, gallery: Embedding, names: np.ndarray, *, rng: np.random.Generator) -> Matcher:
    """P(same) over pairs of a query and a gallery item it can see, at the rate at which they match there."""
    pairs = pairs_of(held, held.fit, gallery, names, different=DIFFERENT, rng=rng)
    return Matcher.fit(pairs.distance, pairs.same, folds=held.folds[pairs.row]).at(pairs.base_rate)


def fit_answer_probabilities(
    evidence: Evidence, right: np.ndarray, known: np.ndarray, folds: np.ndarray
) -> AnswerProbabilities:
    """P(the best match is right) and, of the others, P(nothing in the gallery is it)."""
    features = evidence.features()
    if right.all() or not right.any():
        # With one outcome only, the probability of the pair stands in.
        link = Link(Logistic((1.0, *[0.0] * (features.shape[1] - 1)), 0.0))
    else:
        link = fit_link(features, right, folds, prior_scale=PRIOR_SCALE)
    if known.all():
        return AnswerProbabilities(link, None)
    wrong, both, reach = ~right, both_ways(evidence), UnknownRange.around(evidence[~known])
    if known[wrong].any():
        return AnswerProbabilities(link, fit_logistic(both[wrong], ~known[wrong], prior_scale=ABSENT_SCALE), reach)
    # Never yet was another item right: as the rule of succession has it.
    return AnswerProbabilities(link, Logistic((0.0,) * both.shape[1], float(np.log(wrong.sum() + 1))), reach)


def pair_report(
    held: HeldOut, gallery: Embedding, names: np.ndarray, *, matcher: Matcher, rng: np.random.Generator
) -> CalibrationReport | None:
    """P(same) of pairs half of which match, as `calibration_reports` judges the other probabilities."""
    fitted, asked = (pairs_of(held, rows, gallery, names, different=1, rng=rng) for rows in (held.fit, held.test))
    row, distance, same = (
        np.concatenate([getattr(part, name) for part in (fitted, asked)]) for name in ("row", "distance", "same")
    )
    fit, test = np.split(np.arange(len(row)), [len(fitted.row)])
    steps = matcher.steps is not None
    found = crossed(-distance[:, None], same, held.folds[row], fit=fit, test=test, steps=steps)
    return CalibrationReport.judged(SAME, found, asked.same, isotonic=steps)


def calibration_reports(
    held: HeldOut,
    evidence: Evidence,
    right: np.ndarray,
    *,
    chances: AnswerProbabilities,
    same: CalibrationReport | None,
) -> dict[str, CalibrationReport]:
    """Each probability on queries that tested the policy, from links refitted without their identities.

    The links are of the kind that the policy uses.
    """
    told = {"same": same}
    link = partial(crossed, folds=held.folds, test=held.test)
    steps = chances.right.steps is not None
    best = link(evidence.features(), right, fit=held.fit, steps=steps, prior_scale=PRIOR_SCALE)
    told["right"] = CalibrationReport.judged(RIGHT, best, right[held.test], isotonic=steps)
    if chances.absent is not None:
        wrong = held.fit[~right[held.fit]]
        absent = link(both_ways(evidence), ~held.known, fit=wrong, steps=False, prior_scale=ABSENT_SCALE)
        told["none"] = CalibrationReport.judged(NONE, (1 - best) * absent, ~held.known[held.test], isotonic=steps)
    return {name: honesty for name, honesty in told.items() if honesty}
