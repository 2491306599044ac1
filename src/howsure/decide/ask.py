"""Ask a gallery about pictures: search, weigh, decide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from howsure.decide.answer import Answer, Beside, decide
from howsure.decide.evidence import DEPTH, NEAREST, Evidence, two_as_one, weigh
from howsure.decide.policy import Policy
from howsure.decide.prediction_sets import PredictionSet, checked_probability
from howsure.decide.searched import BLOCK, nearest_to_members, own_of
from howsure.embeddings import Embedding
from howsure.errors import CalibrationError
from howsure.index import Index, Matches
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
    set: PredictionSet | None = None  # where it was asked for
    audit: str | None = None  # its number in the gallery's audit, where it was drawn for that


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
    sets: bool | float = False,
    measures: np.ndarray | None = None,
) -> list[Finding]:
    """One finding a query. Items without a label are identities of their own.

    Without a policy every answer is `not_sure`, and `matcher`, where there is one, still gives probabilities. Where the
    gallery has changed since calibration, its identities are counted, and probabilities corrected for it. With `sets`
    each finding has the set of identities that contains the right answer with this probability; True stands for the
    confidence of the policy. `measures`, (Q, M), are those of the quality of the pictures, if they are at hand.
    """
    identities = policy.identities_in(index) if policy else None
    link = policy.matcher_at(identities) if policy else matcher
    matches = index.search(query, max(k, DEPTH), matcher=link, by=policy.choice.by if policy else "distance")
    uncertainty = query.uncertainty.double().numpy()
    novel = [None] * len(query) if query.novelty is None else query.novelty.double().tolist()
    labels = matches.labels
    chosen: list[PredictionSet] | list[None] = [None] * len(query)
    if policy and matches.ids.shape[1]:
        evidence, either = _evidence(index, query, matches, policy)
        scarcest = _scarcest(index, matches.labels[:, :NEAREST])
        beside = Beside(matches.references, scarcest, matches.uncertainty[:, 0], either, measures)
        answers = decide(policy, evidence, beside, identities=identities)
        if sets:
            chosen = _sets(policy, evidence, matches, sets)
    elif sets:
        got = "an empty gallery" if policy else "no policy"
        raise CalibrationError("prediction sets", expected="a calibrated gallery", got=got, fix="run howsure calibrate")
    elif matches.ids.shape[1] == 0:
        answers = [Answer("unknown", "no_close_match", None)] * len(query)
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
            chosen[row],
        )
        for row, answer in enumerate(answers)
    ]


def _sets(policy: Policy, evidence: Evidence, matches: Matches, sets: bool | float) -> list[PredictionSet]:
    probability = policy.certificate.confidence if sets is True else checked_probability(sets)
    score = policy.chances.right.score(evidence.features())
    ids, labels = matches.ids[:, :DEPTH], matches.labels[:, :DEPTH]
    pairs = zip(ids.ravel().tolist(), labels.ravel().tolist(), strict=True)
    named = np.array([name if label is None else label for name, label in pairs], object).reshape(ids.shape)
    return policy.sets.sets(matches.distances[:, :DEPTH], named, score, probability=probability)


def _evidence(index: Index, query: Embedding, matches: Matches, policy: Policy) -> tuple[Evidence, Evidence]:
    """What matches are evidence of, and what they would be if the two best identities were one."""
    found = _identities(matches.ids[:, :DEPTH], matches.labels[:, :DEPTH])
    members = _members(index, query, matches.ids[:, :DEPTH], found)
    own = own_of(query, matches.uncertainty[:, 0], members=members, by=policy.choice.by)
    distances, unit = matches.distances[:, :DEPTH], policy.choice.unit
    return weigh(distances, found, own, unit=unit), weigh(distances, *two_as_one(found, own), unit=unit)


def _scarcest(index: Index, labels: np.ndarray) -> np.ndarray:
    """Of the identities near each query, (Q, k) labels, how many items the one with fewest has, (Q,)."""
    names = [*dict.fromkeys(labels.ravel().tolist())]
    counts = dict(zip(names, index.references(names), strict=True))
    return np.array([[counts[name] for name in row] for row in labels.tolist()]).min(1)


def _members(index: Index, query: Embedding, ids: np.ndarray, identities: np.ndarray) -> np.ndarray | None:
    """What each member of an ensemble finds among the candidates; None where one of the two has a single draw."""
    draws = len(query.by_draw())
    if draws < 2 or len(index.get([ids[0, 0]]).by_draw()) != draws:
        return None
    parts = []
    for start in range(0, len(query), BLOCK):
        rows = slice(start, start + BLOCK)
        parts.append(nearest_to_members(query[rows], index.get(ids[rows].ravel().tolist()), identities[rows]))
    return np.concatenate(parts)
