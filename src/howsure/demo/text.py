"""The demo in words: what the terminal shows and the report repeats."""

from __future__ import annotations

from howsure.demo.steps import HOWSURE, NEAREST, PROMISED, Demo, Query

__all__ = ["answer_text", "chance", "examples", "headline", "promise", "share", "surest_first"]


def headline(demo: Demo) -> str:
    """The result in a few sentences."""
    plain, ours = (demo.row(name).over(*PROMISED) for name in (NEAREST, HOWSURE))
    unknown = demo.row(NEAREST).tallies["unknown"].asked
    plain_corrupted = demo.row(NEAREST).tallies["corrupted"]
    wrong = [query.finding.answer.kind for query in demo.queries if query.kind == "corrupted" and query.wrong]
    return (
        f"Asked about {plain.asked} digits, {unknown} of them of unknown classes, "
        f"a nearest neighbour gives {plain.wrong} wrong answers ({share(plain.error)}). howsure gives {ours.wrong} "
        f"({share(ours.error)} of its answers), and answers {share(ours.coverage)}. On {plain_corrupted.asked} "
        f"corrupted digits it is {plain_corrupted.wrong} wrong matches against {wrong.count('match')}; "
        f"{wrong.count('unknown')} that are too corrupted are called unknown."
    )


def promise(demo: Demo) -> str:
    """The certificate in words, and its limits."""
    if demo.policy is None:
        return f"Nothing is promised, so nothing is answered: {demo.no_policy}."
    made = demo.policy.certificate
    text = (
        f"Promised: at most {share(made.error_bound)} of the matches are wrong, with confidence "
        f"{share(made.confidence)}, for queries like the {made.n} that tested it, {share(made.unknown_rate)} of them "
        f"unknown, in this gallery of {made.gallery}. "
    )
    if made.false_unknown:
        text += f"Of known digits at most {share(made.false_unknown.bound)} are called unknown, on average. "
    return (
        text + "Corrupted digits are not like those queries: nothing is promised there, the table shows what happens."
    )


def answer_text(query: Query) -> tuple[str, str]:
    """The answer to a query and the reason, in words."""
    answer = query.finding.answer
    words = {"match": f"match: {query.finding.matches[0].label}", "unknown": "unknown", "not_sure": "not sure"}
    return words[answer.kind], answer.why


def examples(demo: Demo) -> list[Query]:
    """A few queries: right answers, refusals by reason, and an error."""
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
