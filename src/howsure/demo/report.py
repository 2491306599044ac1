"""The demo's report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from howsure import __version__, metrics
from howsure.decide import REASONS
from howsure.decide.evidence import FEATURES
from howsure.decide.outcomes import Tally
from howsure.demo.steps import CONFIDENCE, HOWSURE, MAX_ERROR, NEAREST, PROMISED, Demo, Query
from howsure.demo.text import answer_text, chance, headline, promise, share, surest_first
from howsure.files import write_whole
from howsure.match import match_probability
from howsure.plots import figures, page
from howsure.plots.page import Column, Html

__all__ = ["write_report"]

SHEET = 10  # pictures on a sheet
BINS = 10


def write_report(demo: Demo) -> None:
    """Write `report.html`: one file, nothing fetched."""
    parts = [
        page.paragraph(headline(demo), kind="lead"),
        page.section("The same queries, four ways to answer", _table(demo), page.paragraph(promise(demo))),
        page.section("Corrupted digits, from slight to severe", _by_corruption(demo)),
        page.section("Best and worst matches", *_matches(demo)),
        page.section("Answers refused, and why", *_refused(demo)),
        page.section("Most and least certain", *_certain(demo)),
        page.section("Are the probabilities calibrated?", _reliability(demo)),
        page.section("Does uncertainty predict errors?", _risk(demo)),
        page.section("Map of the embedding", _map(demo)),
        page.section("How this was made", _facts(demo)),
    ]
    write_whole(demo.report, page.document("howsure demo: digits, two of them unknown", *parts).encode())


def _table(demo: Demo) -> Html:
    columns = [Column("")]
    columns += [Column(name, group) for group in ("known", "unknown") for name in ("answered", "wrong")]
    columns += [Column(name, "known + unknown") for name in ("coverage", "error among answers")]
    columns += [Column(name, "corrupted: no promise") for name in ("answered", "wrong", "error among answers")]
    rows = []
    for row in demo.rows:
        both, corrupted = row.over(*PROMISED), row.tallies["corrupted"]
        cells: list[object] = [row.name]
        for kind in PROMISED:
            cells += [_count(row.tallies[kind]), row.tallies[kind].wrong]
        cells += [share(both.coverage), share(both.error)]
        rows.append([*cells, _count(corrupted), corrupted.wrong, share(corrupted.error)])
    caption = (
        "Similarity and margin answer from a threshold on, certified on the same calibration queries for the same "
        f"{share(MAX_ERROR)}; one that answers nothing could not be certified."
    )
    return page.table(columns, rows, caption=caption, ours=[len(rows) - 1])


def _by_corruption(demo: Demo) -> Html:
    """The corrupted queries twice: by corruption, and by severity."""
    corrupted = [(row, query) for row, query in enumerate(demo.queries) if query.kind == "corrupted"]
    rows = []
    for part, prefix in ((0, ""), (1, "severity ")):
        for value in sorted({query.corruption.split()[part] for _, query in corrupted}):
            some = [(row, query) for row, query in corrupted if query.corruption.split()[part] == value]
            plain_wrong = sum(demo.plain.identity[row] != query.label for row, query in some)
            answered, wrong = (sum(getattr(query, what) for _, query in some) for what in ("answered", "wrong"))
            rows.append([prefix + value, len(some), plain_wrong, answered, wrong])
    columns = [Column(""), Column("asked"), Column("wrong", NEAREST), Column("answered", HOWSURE)]
    return page.table(
        [*columns, Column("wrong", HOWSURE)],
        rows,
        caption="By corruption and by severity, from 1 (slight) to 5 (severe).",
    )


def _matches(demo: Demo) -> list[Html]:
    surest = sorted(demo.queries, key=surest_first)
    best: dict[str, Query] = {}
    for query in surest:
        if query.answered and not query.wrong and query.finding.answer.kind == "match":
            best.setdefault(query.label, query)
    wrong = [query for query in surest if query.wrong]
    avoided = [query for query in surest if not query.answered and not query.best_is_right]
    return [
        page.section("Surest right answers", _with_matches(demo, list(best.values())[:4]), level=3),
        page.section(f"Surest wrong answers: {len(wrong)} in all", _with_matches(demo, wrong[:6]), level=3),
        page.section(
            f"Wrong best matches that were refused: {len(avoided)} in all", _with_matches(demo, avoided[:4]), level=3
        ),
    ]


def _with_matches(demo: Demo, queries: Sequence[Query]) -> Html:
    if not queries:
        return page.paragraph("None.", kind="soft")
    rows = {name: row for row, name in enumerate(demo.gallery.images.ids)}
    shown = []
    for query in queries:
        found = [
            page.picture(
                demo.gallery.images.image(rows[match.id]),
                alt=f"gallery picture of {match.label}",
                caption=f"{match.label}: {chance(match.probability)}",
            )
            for match in query.finding.matches[:4]
        ]
        shown.append(page.match(_shown(query, caption=_caption(query)), found))
    return page.matches(shown)


def _refused(demo: Demo) -> list[Html]:
    out = []
    refused = [query for query in demo.queries if not query.answered]
    for reason in sorted({query.finding.answer.reason for query in refused if query.finding.answer.reason}):
        some = [query for query in refused if query.finding.answer.reason == reason]
        counts = ", ".join(
            f"{sum(query.kind == kind for query in some)} {kind}" for kind in ("known", "unknown", "corrupted")
        )
        sample = _evenly(sorted(some, key=surest_first), SHEET)
        sheet = page.pictures(
            _shown(query, caption=f"{_what(query)}, nearest {query.finding.matches[0].label}") for query in sample
        )
        out.append(
            page.section(
                f"{REASONS[reason].capitalize()}: {len(some)}", page.paragraph(counts, kind="soft"), sheet, level=3
            )
        )
    return out or [page.paragraph("None: everything was answered.", kind="soft")]


def _certain(demo: Demo) -> list[Html]:
    parts: list[Html] = []
    if demo.policy:
        stated = np.array([query.finding.answer.probability for query in demo.queries])
        parts += [page.paragraph("By the probability that the best match is right.", kind="soft")]
        parts += _sheets(demo, -stated, [chance(value) for value in stated])
    own = np.array([query.finding.uncertainty for query in demo.queries])
    if np.ptp(own) > 0:
        text = "By the picture's own uncertainty, the sum of its variances."
        if demo.policy:
            weights = dict(zip(FEATURES, demo.policy.chances.right.logistic.coefficients, strict=True))
            text += f" Its weight in the policy is {weights['uncertainty']:.2f}."
        parts += [page.paragraph(text, kind="soft"), *_sheets(demo, own, [f"{value:.3f}" for value in own])]
    return parts or [page.paragraph("There is nothing to go by.", kind="soft")]


def _sheets(demo: Demo, uncertainty: np.ndarray, captions: Sequence[str]) -> list[Html]:
    order = np.argsort(uncertainty, kind="stable")
    sheets = []
    for title, rows in (("Most certain", order[:SHEET]), ("Least certain", order[::-1][:SHEET])):
        sheet = (_shown(demo.queries[row], caption=f"{_what(demo.queries[row])}: {captions[row]}") for row in rows)
        sheets.append(page.section(title, page.pictures(sheet), level=3))
    return sheets


def _reliability(demo: Demo) -> Html:
    if demo.policy is None:
        return page.paragraph("There are no calibrated probabilities.", kind="soft")
    rows = [row for row, query in enumerate(demo.queries) if query.kind in PROMISED]
    stated = np.array([demo.queries[row].finding.answer.probability for row in rows])
    right = np.array([demo.queries[row].best_is_right for row in rows])
    asked, items = demo.policy.ranked(demo.embedding[rows]), demo.policy.ranked(demo.gallery.embedding)
    pairs = match_probability(demo.policy.matcher, asked, items).double().numpy().ravel()
    labels = np.array([demo.queries[row].label for row in rows])
    same = (labels[:, None] == np.array(demo.gallery.labels)).ravel()
    drawn = []
    for name, what, probability, outcome in (
        ("best", "the best match is right", stated, right),
        ("pair", "a query and a gallery item show the same", pairs, same),
    ):
        error = metrics.ece(probability, outcome, bins=BINS)
        curve = metrics.reliability(probability, outcome, bins=BINS)
        caption = (
            f"P({what}), {len(outcome):,} cases. Expected calibration error {error:.3f} ({BINS} equal-width bins), "
            f"Brier score {metrics.brier(probability, outcome):.3f}. Larger dots: more cases; bars: 95 % intervals."
        )
        drawn.append(
            page.figure(
                figures.reliability_figure(curve, name=f"reliability-{name}"),
                alt=f"Reliability of P({what}): expected calibration error {error:.3f}",
                caption=caption,
            )
        )
    return page.figures(*drawn)


def _risk(demo: Demo) -> Html:
    rows = np.array([query.kind in PROMISED for query in demo.queries])
    wrong = np.array([not query.best_is_right for query in demo.queries])
    plain_wrong = demo.plain.identity != np.array([query.label for query in demo.queries])
    scores = {
        "top-1 similarity": (-demo.plain.similarity, plain_wrong),
        "margin": (-demo.plain.margin, plain_wrong),
    }
    own = np.array([query.finding.uncertainty for query in demo.queries])
    if np.ptp(own) > 0:
        scores["uncertainty of the query"] = (own, wrong)
    if demo.policy:
        stated = np.array([query.finding.answer.probability for query in demo.queries])
        scores = {"howsure": (-stated, wrong)} | scores
    curves = {
        f"{name}: {metrics.aurc(score[rows], error[rows]):.3f}": metrics.risk_coverage(score[rows], error[rows])
        for name, (score, error) in scores.items()
    }
    return page.figures(
        page.figure(
            figures.risk_coverage_figure(curves, max_error=MAX_ERROR),
            alt="Error among answers against coverage; area under each curve: " + "; ".join(curves),
            caption="Known and unknown queries, the most certain answered first; a match for an unknown is an error. "
            "The number is the area under the curve: small is good.",
        )
    )


def _map(demo: Demo) -> Html:
    unknown = [row for row, query in enumerate(demo.queries) if query.kind == "unknown"]
    drawn = figures.map_figure(demo.gallery.embedding, np.array(demo.gallery.labels), demo.embedding[unknown])
    return page.figures(
        page.figure(
            drawn,
            alt="Map of the embedding: gallery digits in groups, unknown digits as crosses among and between them",
            caption=f"The two main directions of {demo.gallery.embedding.dim}. What is apart here is apart; what "
            "overlaps here may be apart in the others. Circles, where there are any: one standard deviation.",
        )
    )


def _facts(demo: Demo) -> Html:
    card = demo.embedder.card
    return page.facts(
        {
            "data": f"scikit-learn's digits; gallery and training {len(demo.gallery.images)} pictures of 0 to 7",
            "model": f"{card['recipe']['method']}, {card['dim']} dimensions, {card['backbone']}",
            "weights": demo.embedder.fingerprint,
            "validation recall@1": f"{card['validation']['recall_at_1']:.4f} after epoch {card['validation']['epoch']}",
            "tolerated error": f"{MAX_ERROR:g} with confidence {CONFIDENCE:g}",
            "seed": demo.seed,
            "seconds": ", ".join(f"{task} {took:g}" for task, took in demo.seconds.items()),
            "howsure": __version__,
        }
    )


def _shown(query: Query, *, caption: object) -> Html:
    with Image.open(query.path) as image:
        return page.picture(image, alt=f"{query.kind} picture of {query.label}", caption=caption)


def _what(query: Query) -> str:
    return f"a {query.label}" + (f" ({query.corruption})" if query.corruption else "")


def _caption(query: Query) -> str:
    words, why = answer_text(query)
    text = f"shows {_what(query)}; answer {words}, P(right) {chance(query.finding.answer.probability)}"
    return text + (f" ({why})" if why else "")


def _evenly(items: Sequence[Query], count: int) -> list[Query]:
    """Some of many, evenly over their order."""
    return [items[row] for row in np.unique(np.linspace(0, len(items) - 1, min(count, len(items))).astype(int))]


def _count(tally: Tally) -> str:
    return f"{tally.answered} of {tally.asked}"
