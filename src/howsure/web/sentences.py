"""Answers in words."""

from __future__ import annotations

from dataclasses import asdict

from howsure.decide import REASONS, Answer, Finding
from howsure.web import schemas

__all__ = ["about_pair", "about_query"]

# The other reasons are about galleries.
PAIR_REASONS = {
    "conflict": "the two are about as likely to be the same as not",
    "not_calibrated": REASONS["not_calibrated"],
}


def about_query(finding: Finding) -> schemas.Answer:
    """The answer about one query."""
    answer, best = finding.answer, finding.matches[0] if finding.matches else None
    named = (best.label or best.id) if best else ""
    words = {"match": f"This is {named}.", "unknown": "Unknown: nothing in the gallery is it.", "not_sure": "Not sure."}
    return schemas.Answer(**asdict(answer), words=words[answer.kind], why=answer.why or None)


def about_pair(answer: Answer) -> schemas.Answer:
    """The answer about two pictures."""
    words = {"match": "The same.", "unknown": "Not the same.", "not_sure": "Not sure."}
    return schemas.Answer(**asdict(answer), words=words[answer.kind], why=PAIR_REASONS.get(answer.reason or ""))
