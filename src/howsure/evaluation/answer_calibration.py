"""Calibration of a policy's probabilities on a set, each picture a query among all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit

from howsure.decide import CalibrationReport, Policy
from howsure.decide.calibration_report import NONE, RIGHT
from howsure.decide.searched import searched
from howsure.embeddings import Embedding
from howsure.evaluation.metric import Metric
from howsure.neighbours import neighbours

__all__ = ["answer_metrics", "calibration_reports"]


def calibration_reports(policy: Policy, embedding: Embedding, labels: Sequence[str]) -> dict[str, CalibrationReport]:
    """P(right) of the best match and P(none) of pictures whose class has no other, corrected for so many classes."""
    names = np.asarray(labels)
    points = policy.ranked(embedding)
    near = neighbours(points, points, leave_one_out=True)
    done = searched(embedding, embedding, names, near, by=policy.choice.by, unit=policy.choice.unit)
    log_odds = policy.chances.calibrated(done.evidence, ratio=policy.ratio(len(np.unique(names))))
    alone = np.unique(names, return_counts=True)[1][np.unique(names, return_inverse=True)[1]] == 1
    isotonic = policy.chances.right.steps is not None
    right = done.best == names
    reports = {"right": CalibrationReport.judged(RIGHT, expit(log_odds.right), right, isotonic=isotonic)}
    if policy.chances.absent is not None:
        reports["none"] = CalibrationReport.judged(NONE, expit(log_odds.none), alone, isotonic=isotonic)
    return {name: report for name, report in reports.items() if report}


def answer_metrics(reports: Mapping[str, CalibrationReport]) -> list[Metric]:
    """ECE and Brier score of each, with their definitions."""
    out = []
    for name, report in reports.items():
        how = f"P({report.event}) by the policy, {report.link}, leave-one-out; happens at a rate of {report.rate:.3f}"
        out.append(Metric(f"{name}_ece", report.ece, f"15 equal-width bins, last closed; {how}"))
        out.append(Metric(f"{name}_brier", report.brier, how))
    return out
