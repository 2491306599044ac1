"""The demo in words: what the terminal shows and the report repeats."""

from __future__ import annotations

from howsure.decide import REASONS
from howsure.demo.steps import HOWSURE, NEAREST, PROMISED, Demo, Query

__all__ = ["chance", "examples", "headline", "promise", "said", "share", "surest_first"]


def headline(demo: Demo) -> str:
    """The point of it in two sentences."""
    plain, ours = (demo.row(name).over(*PROMISED) for name in (NEAREST, HOWSURE))
    foreign = demo.row(NEAREST).tallies["unknown"].asked
    bad, less = (demo.row(name).tallies["corrupted"] for name in (NEAREST, HOWSURE))
    return (
        f"Asked about {plain.asked} digits, {foreign} of them of kinds it never saw, "
        f"a nearest neighbour gives {plain.wrong} wrong answers ({share(plain.error)}). howsure gives {ours.wrong} "
        f"({share(ours.error)} of its answers), and answers {share(ours.coverage)}. On {bad.asked} corrupted digits "
        f"it is {bad.wrong} wrong answers against {less.wrong}."
    )


def promise(demo: Demo) -> str:
    """The certificate in words, with what it does not cover."""
    if demo.policy is None:
        return f"Nothing is promised, so nothing is answered: {demo.no_policy}."
    made = demo.policy.certificate
    rule = "match or unknown" if demo.policy.unknown_at is not None else "match"
    told = (
        f"Promised: at most {share(made.max_error)} of the answers ({rule}) are wrong, with confidence "
        f"{share(made.confidence)}, for queries like the {made.n} that tested it, {share(made.unknown_rate)} of them "
        f"unknown, in this gallery of {made.gallery}. "
    )
    if demo.policy.unknown_at is None:
        told += "Nothing is called unknown here; what looks unknown ends as not sure. "
    return (
        told + "Corrupted digits are not like those queries: nothing is promised there, the table shows what happens."
    )


def said(query: Query) -> tuple[str, str]:
    """What howsure said about a query, and why, in words."""
    answer = query.finding.answer
    words = {"match": f"match: {query.finding.matches[0].label}", "unknown": "unknown", "not_sure": "not sure"}
    return words[answer.kind], REASONS[answer.reason] if answer.reason else ""


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


def chance(probability: float | None) -> str:
    """A probability with three digits, never rounded to certainty; a dash where there is none.

    >>> chance(0.99999), chance(0.5), chance(None)
    ('>0.999', '0.500', '-')
    """
    if probability is None:
        return "-"
    return ">0.999" if probability > 0.9995 else "<0.001" if probability < 0.0005 else f"{probability:.3f}"


def share(value: float | None) -> str:
    """A share as a percentage; a dash where there is none.

    >>> share(0.05), share(None)
    ('5.0%', '-')
    """
    return "-" if value is None else f"{value:.1%}"
