"""From matches to an answer: match, unknown, or not sure and why; and the policy behind it, with its guarantee.

The guarantee: with the stated confidence over the held-out queries, the error rate among answered future queries is
at most `max_error`, as long as they come like the held-out ones and model and gallery stay as they are. It comes from
exact binomial tests on thresholds fixed without looking at the queries that test them (fixed-sequence testing).
"""

from howsure.decide.answer import REASONS, Answer, decide, verify_pair
from howsure.decide.ask import Finding, Match, ask
from howsure.decide.calibration import calibrate
from howsure.decide.calibration_report import CalibrationReport
from howsure.decide.certify import Certified, certify, least_count, widest_threshold
from howsure.decide.drift import Drift, DriftState, Reference
from howsure.decide.evidence import DEPTH, Evidence, lead, weigh
from howsure.decide.policy import Certificate, Limits, Policy

__all__ = [
    "DEPTH",
    "REASONS",
    "Answer",
    "CalibrationReport",
    "Certificate",
    "Certified",
    "Drift",
    "DriftState",
    "Evidence",
    "Finding",
    "Limits",
    "Match",
    "Policy",
    "Reference",
    "ask",
    "calibrate",
    "certify",
    "decide",
    "lead",
    "least_count",
    "verify_pair",
    "weigh",
    "widest_threshold",
]
