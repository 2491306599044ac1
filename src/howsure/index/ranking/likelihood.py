"""The most likely of what was found for each query: log-likelihood ratios and distances in float64."""

from __future__ import annotations

import numpy as np

from howsure.errors import GalleryError
from howsure.index.layout import Layout
from howsure.index.ranking.exact import Records, costs
from howsure.index.ranking.pairwise import PairMoments, distances, item_uncertainty, log_likelihood_ratios
from howsure.prior import Prior

CANDIDATES = 200  # re-ranked, where they are not proved
SMALL = 2000  # items that are all compared about as fast as candidates are found
TARGET = 0.95  # recall of the ten most likely that is enough


def no_prior() -> GalleryError:
    """What a search by likelihood raises in a gallery without a prior."""
    return GalleryError(
        "search by likelihood",
        expected="a prior over identities",
        got="none in this gallery",
        fix="index.set_prior(Prior.fit(embedding, labels)) with pictures of known identities",
    )


def most_likely(
    query: PairMoments, found: np.ndarray, k: int, prior: Prior, records: Records, layout: Layout
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The k best of what was found, their distances, uncertainty and log-likelihood ratios, (Q, k) each, best first.

    What was found, (Q, c), is whatever `records` knows items by, in the order of their age; -1 where there is none.
    """

    def unlikeliness(a: PairMoments, b: PairMoments) -> np.ndarray:
        return -log_likelihood_ratios(a, b, prior)

    each = unlikeliness, distances, item_uncertainty
    unlikely, apart, unsure = costs(query, found, *each, records=records, layout=layout)
    best = np.arange(len(found))[:, None], np.lexsort((found, unlikely))[:, :k]
    return found[best], apart[best], unsure[best], -unlikely[best]
