"""From matches to an answer: match, unknown, or not sure and why."""

from howsure.decide.answer import REASONS, Answer
from howsure.decide.ask import Finding, Match, ask, count_identities
from howsure.decide.chances import Chances, Odds, Reach, both_ways
from howsure.decide.drift import Drift, DriftState, Reference
from howsure.decide.evidence import DEPTH, FEATURES, PLAIN, Evidence, lead, weigh
from howsure.decide.honesty import Honesty
from howsure.decide.policy import Certificate, Limits, Policy
from howsure.decide.rules import decide, verify_pair

__all__ = [
    "DEPTH",
    "FEATURES",
    "PLAIN",
    "REASONS",
    "Answer",
    "Certificate",
    "Chances",
    "Drift",
    "DriftState",
    "Evidence",
    "Finding",
    "Honesty",
    "Limits",
    "Match",
    "Odds",
    "Policy",
    "Reach",
    "Reference",
    "ask",
    "both_ways",
    "count_identities",
    "decide",
    "lead",
    "verify_pair",
    "weigh",
]
