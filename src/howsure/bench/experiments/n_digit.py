"""The N-digit MNIST experiment of hedged instance embeddings: clean and occluded numbers, verified and searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from howsure import data, metrics
from howsure.bench.experiments import flat
from howsure.bench.work import Work
from howsure.data import ImageSet
from howsure.data.sets.n_digit import corrupted
from howsure.embedder import Embedder
from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.evaluation.failure_prediction import failure_prediction
from howsure.match import Matcher, expected_match_probability, self_mismatch
from howsure.numerics.chi import closed_form_match

__all__ = ["SEVERITIES", "judge", "judge_all", "matchers_of", "nearest", "run"]

# Sides of the occluding squares, uniform from the least to the largest. The paper's are probably 0 to 28; it does not
# say so for certain.
SEVERITIES = ((14, 28), (10, 28), (7, 28), (3, 28), (0, 28), (0, 25), (0, 22), (0, 18), (0, 14))
FEW = ((0, 28), (0, 22))  # of a quick run, and of unseen numbers
SPLITS = {"seen": ("number-test-seen", SEVERITIES), "unseen": ("number-test-unseen", FEW)}
PAIRS = 10_000
PROBES = 1_000
CANDIDATES = 60
BLOCK = 32  # queries compared with the whole gallery: few enough to stay in the cache
NEIGHBOURS = 5
OTHER_NEIGHBOURS = (1, 3, 10)  # the published number is not known
BINS = 20


def run(work: Work) -> dict[str, Any]:
    """Train, then evaluate on numbers seen in training and on others: metrics are `SPLIT.CONDITION.NAME`."""
    embedder = work.embedder(work.pictures("digits"))
    digits = int(work.table.data["digits"].rpartition("-")[2])
    found = {
        name: judge_all(embedder, split, digits=digits, severities=FEW if work.quick else severities)
        for name, (split, severities) in SPLITS.items()
    }
    return {"metrics": flat(found), "links": [matcher.to_json() for matcher in matchers_of(embedder)]}


def judge_all(
    embedder: Embedder, split: str, *, digits: int, severities: Sequence[tuple[int, int]] = SEVERITIES
) -> dict[str, dict[str, Any]]:
    """A model on one test split: `clean`, and `corrupt-L-M` for squares of sides L to M, every digit occluded."""
    matchers = matchers_of(embedder)
    images = data.load(f"n-digit-mnist-{digits}:{split}")
    codes = np.unique(np.asarray(images.labels), return_inverse=True)[1]
    clean = _encoded(embedder, images)
    conditions = {"clean": clean}
    for least, most in severities:
        worse = corrupted(images, occlusion_prob=1.0, sides=(least, most), seed=0)
        conditions[f"corrupt-{least}-{most}"] = _encoded(embedder, worse)
    return {name: judge(embedding, clean, codes, matchers) for name, embedding in conditions.items()}


def matchers_of(embedder: Embedder) -> list[Matcher]:
    """The link that a model learned, or those of the members of an ensemble, each for its own draw."""
    links = embedder.card.get("links") or [embedder.card.get("link")]
    if None in links:
        raise InputError(
            "model", expected="one that learned a link: hedged, hedged-2 or soft-contrastive", got="no link"
        )
    return [Matcher(**link) for link in links]


def judge(embedding: Embedding, clean: Embedding, codes: np.ndarray, matchers: Sequence[Matcher]) -> dict[str, Any]:
    """Metrics of pictures in one condition; `clean` are the same pictures uncorrupted. A matcher for each draw.

    Two readings of "corrupt". Both sides: corrupt with corrupt in verification, corrupt probes in a clean gallery. One
    side: clean with corrupt, clean probes in a corrupt gallery. Failure prediction is for both sides, by the probe's
    uncertainty: `doubt` is its self-mismatch, `top1_distance` and `disagreement` need no distribution.

    Verification: average precision of the match probability over pairs, half of them matching. Search: the majority of
    the nearest, the probe's own picture left out; among equally frequent labels, the one that comes first. There a
    match is rarer than in training, where half of all pairs were; the links are corrected for that.
    `kendall_*`: tau over bins of self-mismatch, +1 = performance falls as it grows; None for points.
    """
    rng = np.random.default_rng(0)
    a, b = _pairs(codes, rng)
    same = codes[a] == codes[b]
    probes = rng.choice(len(codes), min(PROBES, len(codes)), replace=False)
    mismatch = _over_draws(self_mismatch, matchers, embedding).numpy()
    ranks = bool((embedding.variance > 0).any())  # the self-mismatch of points is the same for all
    both, one = (_matching(matchers, first, embedding[b]).numpy() for first in (embedding[a], clean[a]))
    rare = [matcher.at(float((np.bincount(codes) ** 2).sum() / len(codes) ** 2)) for matcher in matchers]
    found = nearest(embedding[probes], clean, rare, own=probes)
    labels = codes[found][:, :NEIGHBOURS]
    answers = metrics.majority(labels)
    correct = answers == codes[probes]
    one_side = codes[nearest(clean[probes], embedding, rare, own=probes)]
    one_side_accuracy = {
        count: float((metrics.majority(one_side[:, :count]) == codes[probes]).mean())
        for count in (NEIGHBOURS, *OTHER_NEIGHBOURS)
    }
    top1_distance = torch.linalg.vector_norm(embedding[probes].mean - clean[found[:, 0]].mean, dim=-1).numpy()
    kendall_ap, kendall_knn = metrics.kendall_over_bins_ap, metrics.kendall_over_bins
    return {
        "verification_ap": metrics.verification_ap(same, both).value,
        "verification_ece": metrics.ece(both, same),
        "verification_brier": metrics.brier(both, same),
        "knn_accuracy": float(correct.mean()),
        "kendall_ap": kendall_ap(mismatch[a] + mismatch[b], same, both, bins=BINS) if ranks else None,
        "kendall_knn": kendall_knn(mismatch[probes], correct, bins=BINS) if ranks else None,
        "one_side_verification_ap": metrics.verification_ap(same, one).value,
        "one_side_verification_ece": metrics.ece(one, same),
        "one_side_verification_brier": metrics.brier(one, same),
        "one_side_knn_accuracy": one_side_accuracy[NEIGHBOURS],
        "one_side_kendall_ap": kendall_ap(mismatch[b], same, one, bins=BINS) if ranks else None,
        "one_side_knn_accuracy_of": {str(count): one_side_accuracy[count] for count in OTHER_NEIGHBOURS},
        "self_mismatch": float(mismatch.mean()),
        "doubt": failure_prediction(mismatch[probes], correct) if ranks else {},
        "top1_distance": failure_prediction(top1_distance, correct),
        "disagreement": failure_prediction((labels != answers[:, None]).mean(1), correct),
    }


def nearest(query: Embedding, gallery: Embedding, matchers: Sequence[Matcher], *, own: np.ndarray) -> np.ndarray:
    """(Q, 10) rows of the gallery by match probability, best first; `own` is each query's row, which is left out.

    Sixty candidates by the closed form, then the quadrature.
    """
    found = []
    count = min(CANDIDATES, len(gallery) - 1)
    for start in range(0, len(query), BLOCK):
        part, mine = query[start : start + BLOCK], own[start : start + BLOCK]
        rough = _over_draws(_closed_form, matchers, part, gallery)
        rough[torch.arange(len(part)), torch.from_numpy(mine)] = -torch.inf
        candidates = rough.topk(count).indices  # (q, count)
        rows = torch.arange(len(part)).repeat_interleave(count)
        exact = _matching(matchers, part[rows], gallery[candidates.flatten()])
        best = exact.view(len(part), count).topk(min(max(OTHER_NEIGHBOURS), count)).indices
        found.append(candidates.gather(1, best).numpy())
    return np.concatenate(found)


def _closed_form(matcher: Matcher, query: Embedding, gallery: Embedding) -> Tensor:
    """(Q, G) match probabilities by the closed form."""
    gap = query.mean[:, None] - gallery.mean
    variance = query.variance[:, None] + gallery.variance
    return closed_form_match(gap.double(), variance.double(), scale=matcher.scale, offset=matcher.offset)


def _matching(matchers: Sequence[Matcher], query: Embedding, gallery: Embedding) -> Tensor:
    """Match probabilities of row with row."""
    return _over_draws(partial(expected_match_probability, paired=True), matchers, query, gallery)


def _over_draws(value: Callable[..., Tensor], matchers: Sequence[Matcher], *embeddings: Embedding) -> Tensor:
    """The mean over draws, each under its own matcher: distances of two networks do not compare."""
    draws = list(zip(*(embedding.by_draw() for embedding in embeddings), strict=True))
    links = [*matchers] * len(draws) if len(matchers) == 1 else matchers  # draws of one network share its link
    return torch.stack([value(link, *parts) for link, parts in zip(links, draws, strict=True)]).mean(0)


def _encoded(embedder: Embedder, images: ImageSet) -> Embedding:
    # In float64 the probability of distant pairs still has an order.
    return embedder.encode_set(images).embedding.to(dtype=torch.float64)


def _pairs(codes: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of different pictures, half of them of one class, every class as often."""
    members = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    same = [rng.choice(members[code], 2, replace=False) for code in rng.integers(len(members), size=PAIRS // 2)]
    drawn = rng.integers(len(codes), size=(PAIRS, 2))
    different = drawn[codes[drawn[:, 0]] != codes[drawn[:, 1]]][: PAIRS // 2]
    pairs = np.concatenate([np.array(same), different])
    return pairs[:, 0], pairs[:, 1]
