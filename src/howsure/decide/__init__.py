"""From matches to an answer: match, unknown, or not sure and why; and the policy behind it, with its guarantee.

The guarantee: with the stated confidence over the held-out queries, the error rate among future matches is at most
`max_error`, as long as queries come like the held-out ones and model and gallery stay as they are. It comes from exact
binomial tests on thresholds of a score that was fitted without the queries that test it (fixed-sequence testing).
Beside it, the share of known queries that are called unknown is bounded by split conformal prediction.
"""

from howsure.decide.answer import Answer, Beside, decide, verify_pair
from howsure.decide.ask import Finding, Match, ask
from howsure.decide.audit import Audit
from howsure.decide.calibration import calibrate
from howsure.decide.calibration_report import CalibrationReport
from howsure.decide.certificate import Certificate, Promise
from howsure.decide.certify import Certified, FalseMatches, certify, grid_of, least_count, widest_threshold
from howsure.decide.drawn_query import Audited, DrawnQuery, Verdict
from howsure.decide.drift import Drift, DriftState, Reference
from howsure.decide.evidence import DEPTH, Evidence, Own, lead, weigh
from howsure.decide.policy import Choice, Limits, Policy
from howsure.decide.prediction_sets import PredictionSet, SetRule
from howsure.decide.reasons import REASONS, in_words
from howsure.decide.unknown import UnknownRule

__all__ = [
    "DEPTH",
    "REASONS",
    "Answer",
    "Audit",
    "Audited",
    "Beside",
    "CalibrationReport",
    "Certificate",
    "Certified",
    "Choice",
    "DrawnQuery",
    "Drift",
    "DriftState",
    "Evidence",
    "FalseMatches",
    "Finding",
    "Limits",
    "Match",
    "Own",
    "Policy",
    "PredictionSet",
    "Promise",
    "Reference",
    "SetRule",
    "UnknownRule",
    "Verdict",
    "ask",
    "calibrate",
    "certify",
    "decide",
    "grid_of",
    "in_words",
    "lead",
    "least_count",
    "verify_pair",
    "weigh",
    "widest_threshold",
]
