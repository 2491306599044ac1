"""Does the promised error rate hold? One model, many random splits of held-out digits into calibration and future.

The naive threshold, the widest one whose error on the calibration queries is small enough, stands beside ours: same
scores, same splits, no test. The error is measured on the other half of a finite set, which is harsher than the
promise: a half that flatters the calibration leaves its errors to the future.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from form import Row, at_least, at_most, run

from howsure.calibrate import calibrate
from howsure.compare import rms_distance
from howsure.data import load
from howsure.decide import DEPTH, Evidence, Policy, decide, weigh
from howsure.embedder import Embedder
from howsure.embeddings import Embedding
from howsure.errors import CalibrationError
from howsure.recipe import recipe_for
from howsure.train import train

MAX_ERROR, CONFIDENCE = 0.05, 0.95


@dataclass(frozen=True, eq=False)
class Queries:
    """Held-out pictures, searched once in the gallery; every split judges policies on rows of it."""

    belief: Embedding
    labels: np.ndarray
    distances: np.ndarray  # (Q, k), best first
    found: np.ndarray  # (Q, k)
    known: np.ndarray

    @property
    def right(self) -> np.ndarray:
        return self.found[:, 0] == self.labels

    def log_odds(self, policy: Policy, rows: np.ndarray) -> np.ndarray:
        return policy.confidence.log_odds(self._evidence(policy, rows).features())

    def kinds(self, policy: Policy, rows: np.ndarray) -> np.ndarray:
        return np.array([answer.kind for answer in decide(policy, self._evidence(policy, rows))])

    def _evidence(self, policy: Policy, rows: np.ndarray) -> Evidence:
        uncertainty = self.belief.uncertainty.double().numpy()
        return weigh(policy.matcher, self.distances[rows], self.found[rows], uncertainty[rows])


@dataclass(frozen=True)
class Outcome:
    """What happened to the future queries of one split."""

    error: float  # among the answers
    coverage: float
    naive_error: float
    naive_coverage: float


def searched(embedder: Embedder, source: str, gallery: Embedding, identities: np.ndarray) -> Queries:
    images = load(source)
    belief, labels = embedder.encode(images), np.array(images.labels)
    nearest = rms_distance(belief.to(dtype=torch.float64), gallery.to(dtype=torch.float64)).topk(DEPTH, largest=False)
    found = identities[nearest.indices.numpy()]
    return Queries(belief, labels, nearest.values.numpy(), found, np.isin(labels, identities))


def one_split(queries: Queries, gallery: Embedding, identities: np.ndarray, *, seed: int) -> Outcome | None:
    """None if nothing could be promised."""
    now, future = np.array_split(np.random.default_rng(seed).permutation(len(queries.labels)), 2)
    try:
        policy = calibrate(
            queries.belief[now],
            queries.labels[now].tolist(),
            gallery,
            identities.tolist(),
            max_error=MAX_ERROR,
            confidence=CONFIDENCE,
            seed=seed,
        )
    except CalibrationError:
        return None
    kinds = queries.kinds(policy, future)
    wrong = ((kinds == "match") & ~queries.right[future]) | ((kinds == "unknown") & queries.known[future])
    naive = queries.log_odds(policy, future) >= naive_threshold(queries.log_odds(policy, now), ~queries.right[now])
    return Outcome(
        error=float(wrong.sum() / max(1, (kinds != "not_sure").sum())),
        coverage=float((kinds != "not_sure").mean()),
        naive_error=float((naive & ~queries.right[future]).sum() / max(1, naive.sum())),
        naive_coverage=float(naive.mean()),
    )


def naive_threshold(log_odds: np.ndarray, error: np.ndarray) -> float:
    """The lowest log-odds from which the error on these very queries is small enough."""
    order = np.argsort(-log_odds)
    rates = np.cumsum(error[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(rates <= MAX_ERROR)
    return float(log_odds[order][good[-1]]) if len(good) else np.inf


def rows_of(what: str, outcomes: Sequence[Outcome | None], *, bar: float) -> list[Row]:
    promised = [outcome for outcome in outcomes if outcome is not None]
    kept = sum(outcome.error <= MAX_ERROR for outcome in promised)
    naive_kept = sum(outcome.naive_error <= MAX_ERROR for outcome in promised)
    silent = len(outcomes) - len(promised)  # no promise, no answer, no error
    small = f"splits with error <= {MAX_ERROR:g}"
    rows = [at_least(f"{what}: {small} or no promise, of all", kept + silent, len(outcomes), bar)]
    if not promised:
        return rows
    return [
        *rows,
        at_least(f"{what}: {small}, of those with a promise", kept, len(promised)),
        at_least(f"{what}: the same with the naive threshold", naive_kept, len(promised)),
        at_most(f"{what}: mean error among answers, ours and naive", *_means(promised, "error", "naive_error")),
        at_least(f"{what}: mean coverage, ours and naive", *_means(promised, "coverage", "naive_coverage")),
    ]


def _means(outcomes: Sequence[Outcome], *names: str) -> list[float]:
    return [float(np.mean([getattr(outcome, name) for outcome in outcomes])) for name in names]


def measure(quick: bool) -> list[Row]:
    torch.set_num_threads(1)  # small batches, and the same numbers on every machine
    enrolled = load("digits:train@!8,9")
    embedder = train(enrolled, recipe_for("digits")).embedder
    gallery, identities = embedder.encode(enrolled), np.array(enrolled.labels)
    rows: list[Row] = []
    for what, source in (("known digits", "digits:test@!8,9"), ("with unknown digits 8, 9", "digits:test")):
        queries = searched(embedder, source, gallery, identities)
        outcomes = [one_split(queries, gallery, identities, seed=seed) for seed in range(20 if quick else 100)]
        # Three broken splits of twenty are no evidence against a rate of 0.95, four are.
        rows += rows_of(what, outcomes, bar=0.85 if quick else 0.95)
    return rows


if __name__ == "__main__":
    run(measure)
