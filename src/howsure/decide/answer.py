"""The three answers, and how a policy decides between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from howsure.decide.evidence import Evidence
from howsure.decide.policy import Policy
from howsure.decide.reasons import Signs, in_words

Kind = Literal["match", "unknown", "not_sure"]

NOVEL = 0.95  # as for every other limit, 95 % of the reference queries lie below
BALANCED = 2 / 3  # of the probability of two identities, the better one has at most this share in a conflict


@dataclass(frozen=True)
class Answer:
    """What to tell the user about one query."""

    kind: Kind
    reason: str | None  # a key of REASONS; None for a match
    probability: float | None  # P(the best match is right); None while the model is not calibrated
    none: float | None = None  # P(nothing in the gallery is it); None where calibration met no unknowns
    needed: float | None = None  # the probability from which a match is answered
    either: float | None = None  # in a conflict, P(it is one of the two best identities)
    fault: str | None = None  # of a poor picture, a key of `howsure.data.quality.CAUSES`; None where it cannot be told

    @property
    def why(self) -> str:
        """The reason in words; empty for a match."""
        numbers = {"either": self.either, "probability": self.probability, "needed": self.needed}
        return in_words(self.reason, fault=self.fault, **numbers)


@dataclass(frozen=True, eq=False)
class Beside:
    """What is known of Q queries beside their evidence; None where it is not."""

    references: np.ndarray | None = None  # (Q,) pictures that the gallery has of the best identity
    scarcest: np.ndarray | None = None  # (Q,) and of the one of the nearest identities that has fewest
    match_uncertainty: np.ndarray | None = None  # (Q,) of the best match
    either: Evidence | None = None  # with the two best identities as one
    measures: np.ndarray | None = None  # (Q, M) of the quality of the pictures


def decide(
    policy: Policy, evidence: Evidence, beside: Beside | None = None, *, identities: int | None = None
) -> list[Answer]:
    """One answer a query.

    In a gallery of another number of identities than the policy was made in, probabilities are corrected for it, and
    an answer needs what it needed before as well as what it needs now: the correction only ever takes answers away.
    Where the gallery is of quite another size there is no match; a smaller one may lack what was near, so that nothing
    is called unknown either. Nor is what is nearest to an identity of too few pictures, nor a clearly poor picture, for
    both are far from everything.
    """
    beside = beside or Beside()
    chances, ratio, covered = policy.chances, policy.ratio(identities), policy.covers(identities)
    calibrated = chances.calibrated(evidence, ratio=ratio)
    right, none = expit(calibrated.right), expit(calibrated.none)
    faults = [None] * len(right) if beside.measures is None else policy.faults(beside.measures)
    match, unknown = policy.claims(evidence, ratio=max(1.0, ratio))
    either = right
    if beside.either is not None:  # corrected for the size of the gallery as the best identity is
        either = expit(policy.conflict.log_odds(beside.either) + calibrated.right - chances.calibrated(evidence).right)
    few = _few(policy, beside.references, len(right))
    torn = (either >= policy.conflict.at_least) & (right <= BALANCED * either)
    signs = _signs(policy, evidence, beside, faults=faults, few=few, torn=torn)
    excused = few | _too_poor(policy, beside, signs)
    lost, unknown = match & (not covered), unknown & (covered or ratio > 1) & ~excused
    reasons = signs.reasons()
    answers = []
    for row in range(len(right)):
        kind: Kind = "match" if match[row] and covered else "unknown" if unknown[row] else "not_sure"
        reason = None if kind == "match" else "no_close_match" if kind == "unknown" else reasons[row]
        reason = "gallery_changed" if lost[row] else reason
        answers.append(
            Answer(
                kind,
                reason,
                float(right[row]),
                None if chances.absent is None else float(none[row]),
                policy.threshold,
                float(either[row]) if reason == "conflict" else None,
                faults[row],
            )
        )
    return answers


def _too_poor(policy: Policy, beside: Beside, signs: Signs) -> np.ndarray:
    """Without novelty, an uncertain query may be new as well as poor; its pixels tell."""
    if beside.measures is None or policy.quality is None:
        return signs.poor & (policy.limits.gap is None)
    return policy.quality.clearly_poor(beside.measures)


def _few(policy: Policy, references: np.ndarray | None, count: int) -> np.ndarray:
    return np.zeros(count, bool) if references is None else np.asarray(references) < policy.limits.references


def _signs(
    policy: Policy,
    evidence: Evidence,
    beside: Beside,
    *,
    faults: Sequence[str | None],
    few: np.ndarray,
    torn: np.ndarray,
) -> Signs:
    limits, of_match = policy.limits, beside.match_uncertainty
    # A single picture is rarely near, which says little about what the model knows.
    far = (evidence.novelty > NOVEL) | (_above(limits.gap, evidence.gap) & ~few)
    poor = np.array([fault is not None for fault in faults], bool)
    if beside.measures is None or policy.quality is None:
        poor = _above(limits.uncertainty, evidence.uncertainty) & ~far
    thin = few | _few(policy, beside.scarcest, len(few))
    if of_match is not None:
        thin |= _above(limits.gallery_uncertainty, of_match)
    return Signs(poor, far, thin, torn)


def verify_pair(probability: float, policy: Policy | None) -> Answer:
    """The answer about one pair: sure where the probability of being wrong is at most the tolerated error."""
    if policy is None:
        return Answer("not_sure", "not_calibrated", probability)
    needed = 1 - policy.certificate.max_error
    if probability >= needed:
        return Answer("match", None, probability, needed=needed)
    if probability <= policy.certificate.max_error:
        return Answer("unknown", "no_close_match", probability, needed=needed)
    return Answer("not_sure", "conflict", probability, needed=needed)


def _above(limit: float | None, values: np.ndarray) -> np.ndarray:
    return np.zeros(len(values), bool) if limit is None else np.asarray(values) > limit
