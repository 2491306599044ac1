"""The demo in words: what the terminal shows and the report repeats."""

from __future__ import annotations

from howsure.bench.demo.run import HOWSURE, NEAREST, PROMISED, Demo, Query
from howsure.decide import REASONS

__all__ = ["examples", "headline", "promise", "said", "share", "surest_first"]


def headline(demo: Demo) -> str:
    """The point of it in two sentences."""
    plain, ours = (demo.row(name).over(*PROMISED) for name in (NEAREST, HOWSURE))
    bad, less = (demo.row(name).tallies["corrupted"] for name in (NEAREST, HOWSURE))
    return (
        f"Of {plain.asked} digits, {demo.row(NEAREST).tallies['unknown'].asked} of a kind never seen, the nearest "
        f"neighbour names {plain.wrong} wrongly ({share(plain.error)}); howsure answers {share(ours.coverage)} of "
        f"them and is wrong in {ours.wrong} answers ({share(ours.error)}). On {bad.asked} corrupted digits it is "
        f"{bad.wrong} wrong answers against {less.wrong}."
    )


def promise(demo: Demo) -> str:
    """The certificate in words, with what it does not cover."""
    if demo.policy is None:
        return f"Nothing is promised, so nothing is answered: {demo.no_policy}."
    made = demo.policy.certificate
    answers = "match and unknown" if demo.policy.unknown_at is not None else "match"
    alone = (
        ""
        if demo.policy.unknown_at is not None
        else " The data could not prove a rule for answering unknown: such queries end as not sure."
    )
    return (
        f"Promised: at most {share(made.max_error)} of the answers ({answers}) are wrong, with {share(made.confidence)} "
        f"confidence, for queries like the {made.n} that tested it ({share(made.unknown_rate)} of them unknown) against "
        f"this gallery of {made.gallery}. Their own bound was {share(made.error_bound)}.{alone} Corrupted digits are "
        f"not like them: nothing is promised there, the table shows what happened."
    )


def said(query: Query) -> str:
    """What howsure said about a query, in words."""
    answer = query.finding.answer
    best = query.finding.matches[0]
    chance = "" if answer.probability is None else f", P(best match is right) = {answer.probability:.3f}"
    if answer.kind == "match":
        return f"match: {best.label}{chance}"
    words = "unknown" if answer.kind == "unknown" else "not sure"
    return f"{words}: {REASONS[answer.reason or 'no_close_match']}{chance}"


def examples(demo: Demo) -> list[Query]:
    """A few queries that show what was found, what was refused for which reason, and what went wrong."""
    chosen: dict[tuple[object, ...], Query] = {}
    for query in sorted(demo.queries, key=surest_first):
        key = (query.kind, query.finding.answer.kind, query.finding.answer.reason, query.wrong)
        chosen.setdefault(key, query)
    order = sorted(chosen.values(), key=lambda query: (query.wrong, not query.answered, query.kind != "known"))
    answered = [query for query in order if query.answered and not query.wrong][:2]
    refused: dict[str | None, Query] = {}
    for query in sorted(order, key=lambda query: ("unknown", "corrupted", "known").index(query.kind)):
        if not query.answered:
            refused.setdefault(query.finding.answer.reason, query)
    return [*answered, *refused.values(), *[query for query in order if query.wrong][:1]]


def surest_first(query: Query) -> tuple[float, str]:
    """A key that sorts by the probability that the best match is right, the highest first."""
    return -(query.finding.answer.probability or 0.0), str(query.path)


def share(value: float | None) -> str:
    """A share as a percentage; a dash where there is none.

    >>> share(0.05), share(None)
    ('5.0%', '-')
    """
    return "-" if value is None else f"{value:.1%}"
