"""Answers in words."""

from __future__ import annotations

from howsure.decide import REASONS, Answer, Finding
from howsure.web import schemas

__all__ = ["about_pair", "about_query"]


def about_query(finding: Finding) -> schemas.Answer:
    """The answer about one query."""
    best = finding.matches[0] if finding.matches else None
    named = (best.label or best.id) if best else ""
    words = {"match": f"This is {named}.", "unknown": "Unknown: nothing in the gallery is it.", "not_sure": "Not sure."}
    return _answer(finding.answer, words[finding.answer.kind])


def about_pair(answer: Answer) -> schemas.Answer:
    """The answer about two pictures."""
    words = {"match": "The same.", "unknown": "Not the same.", "not_sure": "Not sure."}
    reply = _answer(answer, words[answer.kind])
    # The other reasons are about galleries.
    why = "the two are about as likely to be the same as not" if answer.reason == "conflict" else None
    return reply.model_copy(update={"why": reply.why if answer.reason == "not_calibrated" else why})


def _answer(answer: Answer, words: str) -> schemas.Answer:
    return schemas.Answer(
        kind=answer.kind,
        words=words,
        reason=answer.reason,
        why=REASONS[answer.reason] if answer.reason else None,
        probability=answer.probability,
        none=answer.none,
    )
