"""The policy that answers most at a tolerated error rate."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import numpy as np

from howsure.decide.calibration_report import answer_reports, pair_report
from howsure.decide.certify import expected_share, least_count, widest_threshold
from howsure.decide.drift import Reference
from howsure.decide.evidence import Evidence, weigh
from howsure.decide.held_out import FIT_SHARE, HeldOut, check, data_hash
from howsure.decide.policy import Certificate, Limits, Policy
from howsure.decide.probability import fit_answer_probabilities
from howsure.embeddings import Embedding
from howsure.errors import CalibrationError

REFERENCE = 1_000  # queries kept to notice drift


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
    ids: Sequence[str] | None = None,
) -> Policy:
    """The policy that answers most while errors among answers stay at or below `max_error` with this confidence.

    Queries are held-out pictures, `labels` their identities; None, or an identity that the gallery lacks, is an
    unknown. Where there are no unknowns, a share `unknown_rate` of the queries is searched with its own identity
    hidden, so that the policy has met some. An error is a `match` with the wrong identity, or an `unknown` whose
    identity was there; embeddings that keep no novelty are never answered `unknown`. `ids` name the queries in the
    certificate's hash; without them their positions do.
    """
    shares = {"max_error": max_error, "confidence": confidence}
    check(query, labels, gallery, identities, shares=shares, unknown_rate=unknown_rate)
    rng = np.random.default_rng(seed)
    names = np.array([*identities], dtype=object)
    held = HeldOut.split(query, labels, identities, unknown_rate=unknown_rate, rng=rng)
    fit, test, known = held.fit, held.test, held.known

    matcher = held.fit_matcher(gallery, names, rng=rng)
    near = held.nearest(gallery, names)
    found = names[near.positions]
    novelty = None if query.novelty is None else query.novelty.double().numpy()
    uncertainty, gallery_uncertainty = (side.uncertainty.double().numpy() for side in (query, gallery))
    match_uncertainty = gallery_uncertainty[near.positions[:, 0]]
    evidence = weigh(matcher, near.distances, found, uncertainty, novelty, match_uncertainty=match_uncertainty)
    right = known & (found[:, 0] == held.wanted)
    chances = fit_answer_probabilities(evidence[fit], right[fit], known[fit], held.folds[fit])
    scores = chances.scores(evidence)

    # One threshold serves both answers: at equal odds both err alike. Whether `unknown` is worth answering is decided
    # before anything is tested. Without novelty an unknown looks like a poor picture of somebody known.
    share = partial(expected_share, fit=fit, test=test, max_error=max_error, confidence=confidence)
    either = -np.maximum(scores.right, scores.none), np.where(scores.right >= scores.none, ~right, known)
    alone = -scores.right, ~right
    both = novelty is not None and not known.all() and share(*either) > share(*alone)
    score, error = either if both else alone
    rule = widest_threshold(score, error, fit=fit, test=test, max_error=max_error, confidence=confidence)
    if rule is None:
        raise _no_promise(len(test), ~right[test], scores.right[test], max_error=max_error, confidence=confidence)
    accepted = score <= rule.threshold
    unknown = accepted & (scores.none > scores.right) & both

    certificate = Certificate(
        max_error=max_error,
        confidence=confidence,
        error_bound=rule.error_bound,
        coverage=rule.accepted / len(test),
        match_coverage=float((accepted & ~unknown)[test].mean()),
        unknown_coverage=float(unknown[test].mean()),
        n=len(test),
        unknown_rate=float(1 - known.mean()),
        gallery=len(gallery),
        identities=len({*identities}),
        data=data_hash([*map(str, range(len(labels)))] if ids is None else ids, labels),
        made=datetime.now(UTC).date().isoformat(),
    )
    answered = fit[(right & accepted & ~unknown)[fit]]
    reports = {"same": pair_report(held, gallery, names, matcher=matcher, rng=rng)}
    reports |= answer_reports(held, evidence, right, chances=chances)
    return Policy(
        matcher=matcher,
        chances=chances,
        match_at=-rule.threshold,
        unknown_at=-rule.threshold if both else None,
        limits=_limits(evidence[answered], gallery_uncertainty, has_novelty=novelty is not None),
        reference=_reference(evidence, has_novelty=novelty is not None, rng=rng),
        certificate=certificate,
        honesty={name: report for name, report in reports.items() if report},
        model=model,
    )


def _limits(answered: Evidence, gallery_uncertainty: np.ndarray, *, has_novelty: bool) -> Limits:
    def high(values: np.ndarray) -> float | None:
        return float(np.quantile(values, 0.95)) if len(values) and np.ptp(values) > 0 else None

    return Limits(
        gap=None if has_novelty else high(answered.gap),
        margin=float(np.quantile(answered.margin, 0.05)) if len(answered.margin) else 0.0,
        uncertainty=high(answered.uncertainty),
        gallery_uncertainty=high(gallery_uncertainty),
    )


def _reference(evidence: Evidence, *, has_novelty: bool, rng: np.random.Generator) -> Reference:
    """Some of the queries, at random, so that future ones are exchangeable with them."""
    rows = rng.permutation(len(evidence.uncertainty))[:REFERENCE]
    return Reference(
        uncertainty=tuple(evidence.uncertainty[rows].tolist()),
        novelty=tuple(evidence.novelty[rows].tolist()) if has_novelty else (),
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
