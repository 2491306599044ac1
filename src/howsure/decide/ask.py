"""Ask a gallery about pictures: search, weigh, decide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from howsure.decide.answer import Answer, decide
from howsure.decide.evidence import DEPTH, weigh
from howsure.decide.policy import Policy
from howsure.embeddings import Embedding
from howsure.index import Index
from howsure.match import Matcher


@dataclass(frozen=True)
class Match:
    """One gallery item that a query may show."""

    id: str
    label: str | None
    probability: float | None  # P(same) as a pair
    distance: float


@dataclass(frozen=True)
class Finding:
    """The answer about one query, and the matches it rests on, best first."""

    answer: Answer
    uncertainty: float  # of the query: will the answer be wrong?
    novelty: float | None  # of the query: is it unlike anything seen? None where its embedding keeps none
    matches: tuple[Match, ...]
    exact: bool


def _identities(ids: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """A number for each identity, (Q, k): that of the label, or of the item where it has none."""
    codes: dict[tuple[bool, str], int] = {}
    # A label and an id of the same text are kept apart by the flag.
    pairs = zip(ids.ravel().tolist(), labels.ravel().tolist(), strict=True)
    found = [codes.setdefault((False, i) if label is None else (True, label), len(codes)) for i, label in pairs]
    return np.array(found, int).reshape(ids.shape)


def ask(
    index: Index,
    query: Embedding,
    *,
    policy: Policy | None,
    matcher: Matcher | None = None,
    k: int = 5,
) -> list[Finding]:
    """One finding a query. Items without a label are identities of their own.

    Without a policy every answer is `not_sure`, and `matcher`, where there is one, still gives probabilities. Where the
    gallery has changed since calibration, its identities are counted, and probabilities corrected for it.
    """
    identities = policy.identities_in(index) if policy else None
    link = policy.matcher_at(identities) if policy else matcher
    matches = index.search(query, max(k, DEPTH), matcher=link)
    uncertainty = query.uncertainty.double().numpy()
    novelty = None if query.novelty is None else query.novelty.double().numpy()
    novel = [None] * len(query) if novelty is None else novelty.tolist()
    labels = matches.labels
    if matches.ids.shape[1] == 0:
        answers = [Answer("unknown", "no_close_match", None)] * len(query)
    elif policy:
        near = matches.distances[:, :DEPTH], _identities(matches.ids[:, :DEPTH], labels[:, :DEPTH])
        answers = decide(
            policy,
            weigh(policy.matcher, *near, uncertainty, novelty, match_uncertainty=matches.uncertainty),
            identities=identities,
            references=matches.references.tolist(),
            match_uncertainty=matches.uncertainty,
        )
    else:
        answers = [Answer("not_sure", "not_calibrated", None)] * len(query)
    return [
        Finding(
            answer,
            float(uncertainty[row]),
            novel[row],
            tuple(
                Match(
                    id=name,
                    label=labels[row, rank],
                    probability=None if matches.probabilities is None else float(matches.probabilities[row, rank]),
                    distance=float(matches.distances[row, rank]),
                )
                for rank, name in enumerate(matches.ids[row, :k])
            ),
            matches.exact,
        )
        for row, answer in enumerate(answers)
    ]
