"""Ask a gallery about pictures: search, weigh, decide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from howsure.decide.answer import Answer, decide
from howsure.decide.evidence import DEPTH, Evidence, weigh
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
) -> list[Finding]:
    """One finding a query. Items without a label are identities of their own.

    Without a policy every answer is `not_sure`, and `matcher`, where there is one, still gives probabilities. Where the
    gallery has changed since calibration, its identities are counted, and probabilities corrected for it. With `sets`
    each finding has the set of identities that contains the right answer with this probability; True stands for the
    confidence of the policy.
    """
    identities = policy.identities_in(index) if policy else None
    link = policy.matcher_at(identities) if policy else matcher
    matches = index.search(query, max(k, DEPTH), matcher=link, by=policy.choice.by if policy else "distance")
    uncertainty = query.uncertainty.double().numpy()
    novel = [None] * len(query) if query.novelty is None else query.novelty.double().tolist()
    labels = matches.labels
    chosen: list[PredictionSet] | list[None] = [None] * len(query)
    if sets:
        chosen = _sets(policy, index, query, matches, sets)
    if matches.ids.shape[1] == 0:
        answers = [Answer("unknown", "no_close_match", None)] * len(query)
    elif policy:
        answers = decide(
            policy,
            _evidence(index, query, matches, policy),
            identities=identities,
            references=matches.references.tolist(),
            match_uncertainty=matches.uncertainty[:, 0],
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
            chosen[row],
        )
        for row, answer in enumerate(answers)
    ]


def _sets(
    policy: Policy | None, index: Index, query: Embedding, matches: Matches, sets: bool | float
) -> list[PredictionSet]:
    if policy is None or matches.ids.shape[1] == 0:
        got = "an empty gallery" if policy else "no policy"
        raise CalibrationError("prediction sets", expected="a calibrated gallery", got=got, fix="run howsure calibrate")
    probability = policy.certificate.confidence if sets is True else checked_probability(sets)
    score = policy.chances.right.score(_evidence(index, query, matches, policy).features())
    ids, labels = matches.ids[:, :DEPTH], matches.labels[:, :DEPTH]
    pairs = zip(ids.ravel().tolist(), labels.ravel().tolist(), strict=True)
    named = np.array([name if label is None else label for name, label in pairs], object).reshape(ids.shape)
    return policy.sets.sets(matches.distances[:, :DEPTH], named, score, probability=probability)


def _evidence(index: Index, query: Embedding, matches: Matches, policy: Policy) -> Evidence:
    found = _identities(matches.ids[:, :DEPTH], matches.labels[:, :DEPTH])
    members = _members(index, query, matches.ids[:, :DEPTH], found)
    own = own_of(query, matches.uncertainty[:, 0], members=members, by=policy.choice.by)
    return weigh(matches.distances[:, :DEPTH], found, own, unit=policy.choice.unit)


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
