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
    """
    chances, ratio = policy.chances, policy.ratio(identities)
    calibrated = chances.calibrated(evidence, ratio=ratio)
    right, none = expit(calibrated.right), expit(calibrated.none)
    match, _ = policy.claims(chances.scores(evidence, ratio=max(1.0, ratio)))
    _, unknown = policy.claims(chances.scores(evidence, ratio=min(1.0, ratio)))
    answers = []
    for row in range(len(match)):
        probability, absent = float(right[row]), None if chances.absent is None else float(none[row])
        if match[row]:
            answers.append(Answer("match", None, probability, absent))
        elif unknown[row]:
            answers.append(Answer("unknown", "no_close_match", probability, absent))
        else:
            few = references is not None and references[row] < 2
            uncertainty = None if match_uncertainty is None else float(match_uncertainty[row])
            reason = _reason(policy.limits, evidence, row, few=few, match_uncertainty=uncertainty)
            answers.append(Answer("not_sure", reason, probability, absent))
    return answers


def verify_pair(probability: float, policy: Policy | None) -> Answer:
    """The answer about one pair: sure where the probability of being wrong is at most the tolerated error."""
    if policy is None:
        return Answer("not_sure", "not_calibrated", probability)
    if 1 - probability <= policy.certificate.max_error:
        return Answer("match", None, probability)
    if probability <= policy.certificate.max_error:
        return Answer("unknown", "no_close_match", probability)
    return Answer("not_sure", "conflict", probability)


def _reason(limits: Limits, evidence: Evidence, row: int, *, few: bool, match_uncertainty: float | None) -> str:
    # A single picture is rarely near, which says little about what the model knows.
    far = limits.gap is not None and evidence.gap[row] > limits.gap and not few
    if far or evidence.novelty[row] > NOVEL:
        return "unfamiliar"
    if limits.uncertainty is not None and evidence.uncertainty[row] > limits.uncertainty:
        return "poor_image"
    if evidence.margin[row] < limits.margin:
        return "conflict"
    limit = limits.gallery_uncertainty
    poor = limit is not None and match_uncertainty is not None and match_uncertainty > limit
    return "thin_gallery" if few or poor else "no_close_match"
