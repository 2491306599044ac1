"""From scores to probabilities, and from a tolerated error rate to a policy with a guarantee.

The guarantee: with the stated confidence over the held-out queries, the error rate among answered future queries is
at most `max_error`, as long as they come like the held-out ones and model and gallery stay as they are. It comes from
exact binomial tests on thresholds fixed without looking at the queries that test them (fixed-sequence testing).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import numpy as np
import torch
from scipy.stats import beta, binom

from howsure.compare import rms_distance
from howsure.decide import DEPTH, Certificate, Evidence, Limits, Policy, weigh
from howsure.embeddings import Embedding
from howsure.errors import CalibrationError, InputError
from howsure.match import Matcher
from howsure.numerics.logistic import Logistic, fit_logistic

__all__ = ["Certified", "calibrate", "certify", "least_count", "widest_threshold"]

FIT_SHARE = 1 / 3  # of the queries fit probabilities and fix the thresholds; the rest test them
PAIRS = 500_000


@dataclass(frozen=True)
class Certified:
    """The widest threshold whose error rate is proved small enough."""

    threshold: float
    accepted: int
    errors: int
    error_bound: float


def certify(
    uncertainty: np.ndarray,
    error: np.ndarray,
    grid: np.ndarray,
    *,
    max_error: float,
    confidence: float,
    starts: Sequence[int] = (0,),
) -> Certified | None:
    """The largest threshold t of `grid` such that, among items with uncertainty <= t, errors are at most `max_error`.

    From each start the walk goes up while P(Binomial(accepted, max_error) <= errors) is at most its share of
    1 - confidence, and ends at the first failure; so one confidence covers all thresholds and starts together. Neither
    grid nor starts may depend on these items. None if every walk fails at once.
    """
    accepted, errors = _accepted(np.asarray(uncertainty, float), np.asarray(error, bool), np.asarray(grid, float))
    level = (1 - confidence) / len({*starts})
    passes = (accepted > 0) & (binom.cdf(errors, accepted, max_error) <= level)
    ends = [start + int(np.argmin(np.append(passes[start:], False))) - 1 for start in starts if passes[start]]
    if not ends:
        return None
    n, k = int(accepted[max(ends)]), int(errors[max(ends)])
    bound = float(beta.ppf(1 - level, k + 1, n - k)) if k < n else 1.0
    return Certified(float(grid[max(ends)]), n, k, bound)


def _accepted(uncertainty: np.ndarray, error: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many items each threshold accepts, and how many of them are errors."""
    order = np.argsort(uncertainty, kind="stable")
    accepted = np.searchsorted(uncertainty[order], grid, side="right")
    return accepted, np.concatenate([[0], np.cumsum(error[order])])[accepted]


def least_count(max_error: float, confidence: float) -> int:
    """How many answers without a single error it takes to prove the error rate.

    >>> least_count(0.05, 0.95), least_count(0.01, 0.95)
    (59, 299)
    """
    return math.ceil(math.log(1 - confidence) / math.log(1 - max_error))


def calibrate(
    query: Embedding,
    labels: Sequence[str | None],
    gallery: Embedding,
    identities: Sequence[str],
    *,
    max_error: float = 0.01,
    confidence: float = 0.95,
    unknown_rate: float = 0.2,
    seed: int = 0,
    model: str = "",
) -> Policy:
    """The policy that answers most while errors among answers stay at or below `max_error` with this confidence.

    Queries are held-out pictures, `labels` their identities; None, or an identity that the gallery lacks, is an
    unknown. Where there are no unknowns, a share `unknown_rate` of the queries is searched with its own identity
    hidden, so that the policy has met some. An error is a `match` with the wrong identity, or an `unknown` whose
    identity was there.
    """
    _check(query, labels, gallery, identities, max_error=max_error, confidence=confidence, unknown_rate=unknown_rate)
    rng = np.random.default_rng(seed)
    names = np.array([*identities], dtype=object)
    wanted = np.array([*labels], dtype=object)
    enrolled = np.isin(wanted, [*{*identities}])
    hidden = enrolled & (rng.random(len(wanted)) < unknown_rate) if enrolled.all() else np.zeros(len(wanted), bool)
    known = enrolled & ~hidden
    order = rng.permutation(len(wanted))
    fit, test = np.split(order, [round(FIT_SHARE * len(order))])

    matcher = _fit_matcher(query[fit], wanted[fit], gallery, names, hidden=hidden[fit], rng=rng)
    distances, found = _nearest(query, wanted, gallery, names, hidden=hidden)
    novelty = query.novelty
    evidence = weigh(
        matcher,
        distances,
        found,
        query.uncertainty.double().numpy(),
        None if novelty is None else novelty.double().numpy(),
    )
    right = known & (found[:, 0] == wanted)
    link = _fit_confidence(evidence[fit], right[fit])
    log_odds = link.log_odds(evidence.features())

    level = 1 - (1 - confidence) / (2 if not known.all() else 1)  # two rules share the risk of being wrong
    prove = partial(
        widest_threshold,
        fit=fit,
        test=test,
        max_error=max_error,
        confidence=level,
        ceiling=0.0,  # each rule stays on its own side of even odds
    )
    match = prove(-log_odds, ~right)
    if match is None:
        raise _no_promise(len(test), ~right[test], log_odds[test], max_error=max_error, confidence=level)
    unknown = None if known.all() else prove(log_odds, known)

    certificate = Certificate(
        max_error=max_error,
        confidence=confidence,
        error_bound=max(rule.error_bound for rule in (match, unknown) if rule),
        coverage=sum(rule.accepted for rule in (match, unknown) if rule) / len(test),
        match_coverage=match.accepted / len(test),
        unknown_coverage=unknown.accepted / len(test) if unknown else 0.0,
        n=len(test),
        unknown_rate=float(1 - known.mean()),
        gallery=len(gallery),
        made=datetime.now(UTC).date().isoformat(),
    )
    return Policy(
        matcher=matcher,
        confidence=link,
        match_at=-match.threshold,
        unknown_at=unknown.threshold if unknown else None,
        limits=_limits(evidence[fit[right[fit]]], gallery),
        certificate=certificate,
        model=model,
    )


def widest_threshold(
    uncertainty: np.ndarray,
    error: np.ndarray,
    *,
    fit: np.ndarray,
    test: np.ndarray,
    max_error: float,
    confidence: float,
    ceiling: float = math.inf,
) -> Certified | None:
    """`certify` on the items `test`; the items `fit` fix where walks start, and thresholds, none above `ceiling`."""
    low = uncertainty[fit][uncertainty[fit] <= ceiling]
    if not len(low):
        return None
    grid = np.unique(np.append(np.quantile(low, np.arange(0.02, 1, 0.02)), min(ceiling, low.max())))
    accepted, errors = _accepted(uncertainty[fit], error[fit], grid)
    # Where the fitting items foresee the clearest proof; and half-way, in case they were lucky.
    share = len(test) / len(fit)
    foreseen = binom.logcdf((errors + 0.5) * share, np.maximum(accepted * share, 1).astype(int), max_error)
    starts = [int(np.argmin(foreseen)), int(np.searchsorted(accepted, accepted[-1] / 2))]
    return certify(uncertainty[test], error[test], grid, max_error=max_error, confidence=confidence, starts=starts)


def _fit_matcher(
    query: Embedding,
    wanted: np.ndarray,
    gallery: Embedding,
    names: np.ndarray,
    *,
    hidden: np.ndarray,
    rng: np.random.Generator,
) -> Matcher:
    """P(same) over pairs of a query and a gallery item it can see, at the rate at which they match there."""
    columns = rng.permutation(len(gallery))[:2_000]
    rows = np.arange(min(len(query), max(1, PAIRS // len(columns))))
    distance = rms_distance(query[rows].to(dtype=torch.float64), gallery[columns].to(dtype=torch.float64)).numpy()
    same = wanted[rows][:, None] == names[columns]
    seen = ~(same & hidden[rows][:, None])
    return Matcher.fit(distance[seen], same[seen])


def _nearest(
    query: Embedding, wanted: np.ndarray, gallery: Embedding, names: np.ndarray, *, hidden: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The DEPTH nearest items of every query and their identities; a hidden query does not see its own identity."""
    gallery = gallery.to(dtype=torch.float64)
    rows = []
    for start in range(0, len(query), 256):
        part = slice(start, start + 256)
        distance = rms_distance(query[part].to(dtype=torch.float64), gallery)
        own = torch.from_numpy((wanted[part][:, None] == names) & hidden[part][:, None])
        distance[own] = torch.inf
        rows.append(distance.topk(min(DEPTH, len(gallery)), largest=False))
    distances = torch.cat([row.values for row in rows]).numpy()
    found = names[torch.cat([row.indices for row in rows]).numpy()]
    # A gallery too small to fill the depth without the hidden identity repeats its farthest visible item.
    farthest = np.where(np.isfinite(distances), distances, -np.inf).max(1, keepdims=True)
    return np.where(np.isfinite(distances), distances, farthest), found


def _fit_confidence(evidence: Evidence, right: np.ndarray) -> Logistic:
    """P(the best match is right); with one outcome only, the probability of the pair stands in."""
    if right.all() or not right.any():
        return Logistic((1.0, *[0.0] * (evidence.features().shape[1] - 1)), 0.0)
    return fit_logistic(evidence.features(), right, prior_scale=3.0)


def _limits(usual: Evidence, gallery: Embedding) -> Limits:
    def high(values: np.ndarray) -> float | None:
        return float(np.quantile(values, 0.95)) if len(values) and np.ptp(values) > 0 else None

    return Limits(
        neighbour_distance=high(usual.neighbour_distance) or math.inf,
        margin=float(np.quantile(usual.margin, 0.05)) if len(usual.margin) else 0.0,
        uncertainty=high(usual.uncertainty),
        gallery_uncertainty=high(gallery.uncertainty.double().numpy()),
    )


def _check(
    query: Embedding,
    labels: Sequence[str | None],
    gallery: Embedding,
    identities: Sequence[str],
    *,
    max_error: float,
    confidence: float,
    unknown_rate: float,
) -> None:
    for name, value in (("max_error", max_error), ("confidence", confidence)):
        if not 0 < value < 1:
            raise InputError(name, expected="a share between 0 and 1", got=str(value))
    if not 0 <= unknown_rate < 1:
        raise InputError("unknown_rate", expected="a share from 0 to below 1", got=str(unknown_rate))
    for name, items, names in (("query", query, labels), ("gallery", gallery, identities)):
        if len(items) != len(names):
            raise InputError(f"{name} labels", expected=str(len(items)), got=str(len(names)))
    if None in identities:
        raise InputError("gallery labels", expected="an identity for every item", got="None among them")
    if len(set(identities)) < 2:
        raise CalibrationError("gallery", expected="two identities or more", got=str(len(set(identities))))
    if len(query) < 30:
        raise CalibrationError(
            "queries", expected="30 held-out pictures or more", got=str(len(query)), fix="hold out more"
        )


def _no_promise(
    n: int, error: np.ndarray, log_odds: np.ndarray, *, max_error: float, confidence: float
) -> CalibrationError:
    surest = np.argsort(-log_odds)[: max(1, n // 2)]
    least = 2 * least_count(max_error, confidence)
    return CalibrationError(
        "no policy can promise this",
        expected=f"an error rate of at most {max_error:g} with confidence {confidence:g}",
        got=f"{int(error[surest].sum())} errors among the surest {len(surest)} of {n} test queries",
        fix=f"allow a larger error, or hold out more pictures (about {round(2 * least / (1 - FIT_SHARE))} at least)",
    )
