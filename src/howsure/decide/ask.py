"""Ask a gallery about pictures: search, weigh, decide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from howsure.decide.answer import Answer
from howsure.decide.evidence import DEPTH, weigh
from howsure.decide.policy import Policy
from howsure.decide.rules import decide
from howsure.embeddings import Embedding
from howsure.index import Gallery, Item
from howsure.match import Matcher

SAMPLE = 2_000


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
    novelty: float | None  # of the query: is it unlike anything seen? None where the belief does not say
    matches: tuple[Match, ...]
    exact: bool


def _identities(ids: np.ndarray, items: dict[str, Item]) -> np.ndarray:
    # Labels and bare ids cannot meet: a tuple keeps them apart.
    named = {name: (True, item.label) if item.label is not None else (False, name) for name, item in items.items()}
    codes = {identity: code for code, identity in enumerate(dict.fromkeys(named.values()))}
    return np.vectorize(lambda name: codes[named[name]], otypes=[int])(ids)


def count_identities(index: Gallery) -> int:
    """How many identities a gallery holds; past SAMPLE items by a sample of them, each counted as 1/references."""
    ids = index.ids()
    some = np.random.default_rng(0).permutation(len(ids))[:SAMPLE]
    references = index.references(index.labels([ids[place] for place in some])) if len(ids) else [1]
    return round(len(ids) * float(np.mean(1 / np.array(references))))


def ask(
    index: Gallery,
    query: Embedding,
    *,
    policy: Policy | None,
    matcher: Matcher | None = None,
    k: int = 5,
    identities: int | None = None,
) -> list[Finding]:
    """One finding a query. Items without a label are identities of their own.

    Without a policy every answer is `not_sure`, and `matcher`, where there is one, still gives probabilities.
    `identities` is how many the gallery holds; without it, as many as when the policy was made.
    """
    link = policy.matcher_at(identities) if policy else matcher
    matches = index.search(query, max(k, DEPTH), matcher=link)
    uncertainty = query.uncertainty.double().numpy()
    novelty = None if query.novelty is None else query.novelty.double().numpy()
    novel = [None] * len(query) if novelty is None else novelty.tolist()
    if len(index) == 0:
        nothing = Answer("unknown", "no_close_match", None)
        return [Finding(nothing, value, novel[row], (), True) for row, value in enumerate(uncertainty.tolist())]
    items = {item.id: item for item in index.items(sorted(set(matches.ids.ravel())))}
    whose = _identities(matches.ids, items)
    if policy:
        doubt = index.get(list(matches.ids[:, 0])).uncertainty.double().numpy()
        near = matches.distances[:, :DEPTH], whose[:, :DEPTH]
        answers = decide(
            policy,
            weigh(policy.matcher, *near, uncertainty, novelty, match_uncertainty=doubt),
            identities=identities,
            references=index.references([items[best].label for best in matches.ids[:, 0]]),
            match_uncertainty=doubt,
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
                    label=items[name].label,
                    probability=None if matches.probabilities is None else float(matches.probabilities[row, rank]),
                    distance=float(matches.distances[row, rank]),
                )
                for rank, name in enumerate(matches.ids[row, :k])
            ),
            matches.exact,
        )
        for row, answer in enumerate(answers)
    ]
