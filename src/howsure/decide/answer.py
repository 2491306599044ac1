"""The three answers, the reasons for not being sure, and how a policy decides between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from howsure.decide.evidence import Evidence
from howsure.decide.policy import Limits, Policy

Kind = Literal["match", "unknown", "not_sure"]

REASONS = {
    "unfamiliar": "unlike anything the model knows",
    "poor_image": "the picture itself is ambiguous: take another one",
    "conflict": "several identities are about equally likely",
    "thin_gallery": "its references are few or poor: add pictures of it",
    "no_close_match": "nothing in the gallery is close enough",
    "gallery_changed": "the promise was made for a gallery of another size: calibrate again",
    "not_calibrated": "the model has no policy yet: run howsure calibrate",
}
NOVEL = 0.95  # as for every other limit, 95 % of the reference queries lie below


@dataclass(frozen=True)
class Answer:
    """What to tell the user about one query."""

    kind: Kind
    reason: str | None  # a key of REASONS; None for a match
    probability: float | None  # P(the best match is right); None while the model is not calibrated
    none: float | None = None  # P(nothing in the gallery is it); None where calibration met no unknowns
    needed: float | None = None  # the probability from which a match is answered


def decide(
    policy: Policy,
    evidence: Evidence,
    *,
    identities: int | None = None,
    references: Sequence[int] | None = None,
    match_uncertainty: np.ndarray | None = None,
) -> list[Answer]:
    """One answer a query.

    `references` is how many pictures the gallery has of the best identity; `match_uncertainty` is the best match's own.
    In a gallery of another number of identities than the policy was made in, probabilities are corrected for it, and
    an answer needs what it needed before as well as what it needs now: the correction only ever takes answers away.
    Where the gallery is of quite another size there is no match; a smaller one may lack what was near, so that nothing
    is called unknown either.
    """
    chances, ratio = policy.chances, policy.ratio(identities)
    calibrated = chances.calibrated(evidence, ratio=ratio)
    right, none = expit(calibrated.right), expit(calibrated.none)
    match, unknown = policy.claims(evidence, ratio=max(1.0, ratio))
    covered, needed = policy.covers(identities), policy.threshold
    lost = match & (not covered)
    match, unknown = match & covered, unknown & (covered or ratio > 1)
    answers = []
    for row in range(len(match)):
        probability, absent = float(right[row]), None if chances.absent is None else float(none[row])
        few = references is not None and references[row] < policy.limits.references
        poor = evidence.novelty[row] <= NOVEL and _above(policy.limits.uncertainty, evidence.uncertainty[row])
        kind: Kind = "not_sure"
        reason: str | None = None
        if match[row]:
            kind = "match"
        elif lost[row]:
            reason = "gallery_changed"
        # Far from everything: so is a poor picture of something known, where it can be told, or of a thin identity.
        elif unknown[row] and not few and not (poor and policy.limits.gap is None):
            kind, reason = "unknown", "no_close_match"
        else:
            thin = few or (
                match_uncertainty is not None and _above(policy.limits.gallery_uncertainty, match_uncertainty[row])
            )
            reason = _reason(policy.limits, evidence, row, few=few, thin=thin)
        answers.append(Answer(kind, reason, probability, absent, needed))
    return answers


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


def _reason(limits: Limits, evidence: Evidence, row: int, *, few: bool, thin: bool) -> str:
    # A single picture is rarely near, which says little about what the model knows.
    if evidence.novelty[row] > NOVEL or (not few and _above(limits.gap, evidence.gap[row])):
        return "unfamiliar"
    if _above(limits.uncertainty, evidence.uncertainty[row]):
        return "poor_image"
    if evidence.margin[row] < limits.margin:
        return "conflict"
    return "thin_gallery" if thin else "no_close_match"


def _above(limit: float | None, value: float) -> bool:
    return limit is not None and bool(value > limit)
