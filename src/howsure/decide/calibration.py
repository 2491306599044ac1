"""The policy that answers most at the error rates that an operator tolerates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from scipy.special import expit

from howsure.data.quality import Quality
from howsure.decide.calibration_report import answer_reports, pair_report
from howsure.decide.certificate import Certificate, Promise, Wanted
from howsure.decide.certify import Certified, FalseMatches, upper_bound, widest_threshold
from howsure.decide.conflict import fit_conflict
from howsure.decide.drift import Reference
from howsure.decide.evidence import Evidence
from howsure.decide.held_out import HeldOut, check, data_hash
from howsure.decide.learning import Learned, Ways, learn
from howsure.decide.policy import Choice, Limits, Policy
from howsure.decide.prediction_sets import SetRule, set_rule
from howsure.decide.probability import AnswerProbabilities, fit_absent, meaning_of
from howsure.decide.searched import ranked
from howsure.decide.shortfall import no_promise
from howsure.decide.unknown import UnknownRule, unknown_rule
from howsure.embeddings import Embedding
from howsure.numerics.link import Link

REFERENCE = 1_000  # queries kept to notice drift
FAR = 0.01


def calibrate(
    query: Embedding,
    labels: Sequence[str | None],
    gallery: Embedding,
    identities: Sequence[str],
    *,
    max_error: float = 0.01,
    confidence: float = 0.95,
    max_false_unknown: float = 0.01,
    max_false_match: float | None = None,
    unknown_rate: float = 0.2,
    seed: int = 0,
    model: str = "",
    ids: Sequence[str] | None = None,
    quality: Quality | None = None,
    measures: np.ndarray | None = None,
) -> Policy:
    """The policy that answers most while three error rates stay at or below what is tolerated.

    `max_error`: of the answers `match`, with this confidence. `max_false_unknown`: of the queries whose identity is in
    the gallery, that are called `unknown`; on average over held-out queries. `max_false_match`, if given: of the
    queries whose identity is not there, that get a `match`, with the same confidence.

    Queries are held-out pictures, `labels` their identities; None, or an identity that the gallery lacks, is an
    unknown. Where there are no unknowns, a share `unknown_rate` of the queries is searched with its own identity
    hidden, so that the policy has met some. `ids` name the queries in the certificate's hash; without them their
    positions do. With the `quality` of such pictures, and the `measures` (Q, M) of these, a clearly poor picture is not
    called unknown; every promise holds for queries that nobody looks at, too.
    """
    wanted = Wanted(max_error, confidence, max_false_unknown, max_false_match)
    check(query, labels, gallery, identities, unknown_rate=unknown_rate)
    rng = np.random.default_rng(seed)
    names = np.array([*identities], dtype=object)
    held = HeldOut.split(query, labels, identities, unknown_rate=unknown_rate, rng=rng)
    learned = learn(Ways.of(held, gallery, names, unknown_rate=unknown_rate, rng=rng), held, rng=rng)
    rule = prove(learned, held, wanted)
    poor = np.zeros(len(query), bool)
    if quality is not None and measures is not None:
        poor = quality.clearly_poor(measures)
    by, scores, right, evidence = learned.candidate.by, learned.scores, learned.right, learned.held.evidence
    compared, items = replace(held, query=ranked(query, by)), ranked(gallery, by)
    matcher = compared.fit_matcher(items, names, rng=rng)
    (slope,), shift = rule.meaning.logistic.coefficients, rule.meaning.logistic.offset
    link = Link(learned.score.rescaled(slope, shift), rule.meaning.steps)
    chances = AnswerProbabilities(link, fit_absent(evidence, right, held.known))
    known, has_novelty = evidence[held.known], query.novelty is not None
    match_at = slope * -rule.proved.threshold + shift
    conflict = fit_conflict(
        learned.score,
        learned.held.either,
        held.known & learned.held.in_two(held.wanted),
        folds=held.folds,
        strangers=~held.known & ~rule.match(learned) & ~rule.calls_unknown(evidence),
        needed=float(expit(link.log_odds(np.array(match_at)))),
    )
    reports = {"same": pair_report(compared, items, names, matcher=matcher, rng=rng)}
    reports |= answer_reports(held, evidence, right, scores=scores, chances=chances)
    return Policy(
        matcher=matcher,
        chances=chances,
        choice=Choice(learned.candidate.words, by, learned.unit, learned.foreseen),
        match_at=match_at,
        match_within=rule.reach,
        conflict=conflict,
        unknown=rule.unknown,
        sets=_set_rule(learned, held, link.score(evidence.features())),
        limits=Limits(
            gap=None if has_novelty else _high(known.gap),
            uncertainty=_high(known.uncertainty),
            gallery_uncertainty=_high(gallery.uncertainty.double().numpy()),
            references=_enough(held.references(names)[held.known]),
        ),
        reference=_reference(evidence, has_novelty=has_novelty, rng=rng),
        certificate=Certificate(
            **_promises(held, learned, rule, wanted=wanted, poor=poor),
            unknown_rate=float(1 - held.known.mean()),
            gallery=len(gallery),
            identities=len({*identities}),
            data=data_hash([*map(str, range(len(labels)))] if ids is None else ids, labels),
            made=datetime.now(UTC).date().isoformat(),
        ),
        honesty={name: report for name, report in reports.items() if report},
        model=model,
        quality=quality,
    )


@dataclass(frozen=True, eq=False)
class Rule:
    """When to answer, by the score that was learned."""

    proved: Certified
    reach: float  # a match is nearer
    unknown: UnknownRule | None
    meaning: Link  # from the score to P(right)

    def match(self, learned: Learned) -> np.ndarray:
        """Which of the held-out queries get one, (Q,)."""
        near: np.ndarray = learned.held.evidence.remoteness < self.reach
        return near & (learned.scores >= -self.proved.threshold)

    def calls_unknown(self, evidence: Evidence) -> np.ndarray:
        """Which queries are too far off to be known, (Q,)."""
        return np.zeros(len(evidence.remoteness), bool) if self.unknown is None else self.unknown.holds(evidence)


def prove(learned: Learned, held: HeldOut, wanted: Wanted) -> Rule:
    """The rule that answers most, from the queries that test; an error where nothing can be proved."""
    evidence, test = learned.held.evidence, learned.test
    has_novelty = held.query.novelty is not None
    unknown = unknown_rule(evidence[held.known], at_most=wanted.max_false_unknown, has_novelty=has_novelty)
    reach = _reach(evidence.remoteness[test])
    near = test[evidence.remoteness[test] < reach]
    limit = wanted.max_false_match
    tolerated: dict[str, Any] = {
        "max_error": wanted.max_error,
        "confidence": wanted.confidence,
        "false_matches": None if limit is None else FalseMatches(~held.known[near], limit),
    }
    asked = -learned.scores[near], ~learned.right[near], learned.grid
    meaning = meaning_of(learned.scores, learned.right, held.folds)
    proved = widest_threshold(*asked, **tolerated, cap=_likelier_right(meaning, learned.scores))
    if proved is None:
        raise no_promise(*asked, **tolerated)
    return Rule(proved, reach, unknown, meaning)


def _promises(held: HeldOut, learned: Learned, rule: Rule, *, wanted: Wanted, poor: np.ndarray) -> dict[str, Any]:
    """Each promise, and what was seen beside it, on the queries that tested."""
    test, far, proved = learned.test, rule.unknown, rule.proved
    known, right, match = held.known[test], learned.right[test], rule.match(learned)[test]
    unknown = ~match & ~poor[test] & rule.calls_unknown(learned.held.evidence[test])
    let_in, strangers = int(match[~known].sum()), int((~known).sum())
    false_unknown = false_match = None
    if far is not None:
        events, n = int(far.holds(learned.held.evidence[held.known]).sum()), int(held.known.sum())
        false_unknown = Promise(wanted.max_false_unknown, far.on_average, None, events, n)
    if wanted.max_false_match is not None:
        bound = upper_bound(let_in, strangers, risk=(1 - wanted.confidence) / 2)
        false_match = Promise(wanted.max_false_match, bound, wanted.confidence, let_in, strangers)
    return {
        "error": Promise(wanted.max_error, proved.error_bound, wanted.confidence, proved.errors, proved.accepted),
        "false_unknown": false_unknown,
        "false_match": false_match,
        "match_coverage": float(match.mean()),
        "unknown_coverage": float(unknown.mean()),
        "false_match_rate": let_in / strangers if strangers else None,
        "false_non_match_rate": float((~(match & right))[known].mean()) if known.any() else None,
        "n": len(test),
        "asked_identities": len({*held.wanted[test][known].tolist()}),
    }


def _set_rule(learned: Learned, held: HeldOut, score: np.ndarray) -> SetRule:
    test, found = learned.test, learned.held[learned.test]
    return set_rule(found.distances, found.identities, score[test], held.wanted[test], held.known[test])


def _likelier_right(meaning: Link, scores: np.ndarray) -> float:
    """The threshold up to which a match is at least as likely right as wrong, whatever errors are tolerated."""
    likely = meaning.log_odds(meaning.score(scores[:, None])) >= 0
    return float(-scores[likely].min()) if likely.any() else -np.inf


def _reach(remoteness: np.ndarray) -> float:
    """All but the farthest share `FAR` of the queries are nearer.

    Below an order statistic of their own, queries are an independent sample of all queries below it. So the proof
    holds for those that are near; the others, which may be anything, get no match.
    """
    return float(np.sort(remoteness)[-max(1, round(FAR * len(remoteness)))])


def _high(values: np.ndarray) -> float | None:
    """95 % lie below; None where all are the same."""
    return float(np.quantile(values, 0.95)) if len(values) and np.ptp(values) > 0 else None


def _enough(references: np.ndarray) -> int:
    """A third of what 95 % of the known queries have of their identity, and two where these have so many."""
    usual = int(np.quantile(references, 0.05)) if len(references) else 0
    return min(usual, max(2, usual // 3))


def _reference(evidence: Evidence, *, has_novelty: bool, rng: np.random.Generator) -> Reference:
    """Some of the queries, at random, so that future ones are exchangeable with them."""
    rows = rng.permutation(len(evidence.uncertainty))[:REFERENCE]
    return Reference(
        uncertainty=tuple(evidence.uncertainty[rows].tolist()),
        novelty=tuple(evidence.novelty[rows].tolist()) if has_novelty else (),
    )
