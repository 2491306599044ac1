"""What a policy says about the pictures of a set, each asked among all others: does it happen as often as it says?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit

from howsure.decide import CalibrationReport, Policy, weigh
from howsure.decide.calibration_report import NONE, RIGHT
from howsure.embeddings import Embedding
from howsure.evaluation.metric import Metric
from howsure.neighbours import neighbours

__all__ = ["answer_metrics", "calibration_reports"]


def calibration_reports(policy: Policy, belief: Embedding, labels: Sequence[str]) -> dict[str, CalibrationReport]:
    """P(right) of the best match and P(none) of pictures whose class has no other, corrected for so many classes."""
    names = np.asarray(labels)
    near = neighbours(belief, belief, leave_one_out=True)
    found = names[near.positions]
    novelty = None if belief.novelty is None else belief.novelty.double().numpy()
    evidence = weigh(policy.matcher, near.distances, found, belief.uncertainty.double().numpy(), novelty)
    told = policy.chances.calibrated(evidence, ratio=policy.ratio(len(np.unique(names))))
    alone = np.unique(names, return_counts=True)[1][np.unique(names, return_inverse=True)[1]] == 1
    isotonic = policy.chances.right.steps is not None
    judged = {"right": CalibrationReport.judged(RIGHT, expit(told.right), found[:, 0] == names, isotonic=isotonic)}
    if policy.chances.absent is not None:
        judged["none"] = CalibrationReport.judged(NONE, expit(told.none), alone, isotonic=isotonic)
    return {name: honesty for name, honesty in judged.items() if honesty}


def answer_metrics(judged: Mapping[str, CalibrationReport]) -> list[Metric]:
    """ECE and Brier score of each, with their definitions."""
    out = []
    for name, honesty in judged.items():
        how = (
            f"P({honesty.event}) by the policy, {honesty.link}, leave-one-out; happens at a rate of {honesty.rate:.3f}"
        )
        out.append(Metric(f"{name}_ece", honesty.ece, f"15 equal-width bins, last closed; {how}"))
        out.append(Metric(f"{name}_brier", honesty.brier, how))
    return out
