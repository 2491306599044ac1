"""From matches to an answer: match, unknown, or not sure and why."""

from howsure.decide.answer import REASONS, Answer
from howsure.decide.ask import Finding, Match, ask
from howsure.decide.evidence import DEPTH, Evidence, lead, weigh
from howsure.decide.policy import Certificate, Limits, Policy
from howsure.decide.rules import decide, verify_pair

__all__ = [
    "DEPTH",
    "REASONS",
    "Answer",
    "Certificate",
    "Evidence",
    "Finding",
    "Limits",
    "Match",
    "Policy",
    "ask",
    "decide",
    "lead",
    "verify_pair",
    "weigh",
]
