"""From evidence and a policy to answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from howsure.decide.answer import Answer
from howsure.decide.evidence import Evidence
from howsure.decide.policy import Limits, Policy

NOVEL = 0.95  # as for every other limit, 95 % of usual queries lie below


def decide(
    policy: Policy,
    evidence: Evidence,
    *,
    references: Sequence[int] | None = None,
    match_uncertainty: np.ndarray | None = None,
) -> list[Answer]:
    """One answer a query.

    `references` is how many pictures the gallery has of the best identity; `match_uncertainty` is the best match's own.
    """
    log_odds = policy.confidence.log_odds(evidence.features())
    answers = []
    for row, value in enumerate(log_odds):
        probability = float(expit(value))
        if value >= policy.match_at:
            answers.append(Answer("match", None, probability))
        elif policy.unknown_at is not None and value <= policy.unknown_at:
            answers.append(Answer("unknown", "no_close_match", probability))
        else:
            few = references is not None and references[row] < 2
            doubt = None if match_uncertainty is None else float(match_uncertainty[row])
            answers.append(Answer("not_sure", _reason(policy.limits, evidence, row, few=few, doubt=doubt), probability))
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


def _reason(limits: Limits, evidence: Evidence, row: int, *, few: bool, doubt: float | None) -> str:
    if evidence.neighbour_distance[row] > limits.neighbour_distance or evidence.novelty[row] > NOVEL:
        return "unfamiliar"
    if limits.uncertainty is not None and evidence.uncertainty[row] > limits.uncertainty:
        return "poor_image"
    if evidence.margin[row] < limits.margin:
        return "conflict"
    poor = limits.gallery_uncertainty is not None and doubt is not None and doubt > limits.gallery_uncertainty
    if few or poor:
        return "thin_gallery"
    return "no_close_match"
