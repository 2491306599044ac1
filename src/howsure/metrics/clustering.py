"""How well clusters agree with true labels. Item by item (B-cubed) or pair by pair; each is in [0, 1], large = good."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from howsure.metrics import checks


@dataclass(frozen=True)
class Agreement:
    """Precision: what is together belongs together. Recall: what belongs together is together. F: harmonic mean."""

    precision: float
    recall: float

    @property
    def f(self) -> float:
        """2 / (1/precision + 1/recall); 0 where both are 0."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def pairwise_f(labels: ArrayLike, clusters: ArrayLike) -> Agreement:
    """Over pairs of different items: of those in one cluster, how many share a label, and the other way round.

    Where no pair is together there is nothing wrong with that: the share counts as 1. Large clusters hold most pairs
    and decide.

    >>> pairwise_f(["a", "a", "b"], [0, 0, 0])
    Agreement(precision=0.3333333333333333, recall=1.0)
    """
    table = _contingency(labels, clusters)
    counts = (table.data, table.sum(axis=0), table.sum(axis=1))
    both, together, alike = (float((np.asarray(n) * (np.asarray(n) - 1)).sum()) for n in counts)
    return Agreement(both / together if together else 1.0, both / alike if alike else 1.0)


def b_cubed(labels: ArrayLike, clusters: ArrayLike) -> Agreement:
    """Mean over items: of an item's cluster, how many share its label, and of its label, how many share its cluster.

    An item counts as a mate of itself, so a single one in its own cluster has precision 1. Every item weighs alike.

    >>> b_cubed(["a", "a", "b", "b"], [0, 0, 0, 0])
    Agreement(precision=0.5, recall=1.0)
    """
    table = _contingency(labels, clusters)
    row, column = table.nonzero()
    of_cluster, of_label = np.asarray(table.sum(axis=0)).ravel()[column], np.asarray(table.sum(axis=1)).ravel()[row]
    precision, recall = ((table.data**2 / of).sum() / table.sum() for of in (of_cluster, of_label))
    return Agreement(float(precision), float(recall))


def _contingency(labels: ArrayLike, clusters: ArrayLike) -> Any:
    """(L, K) how many items have a label and a cluster; sparse, as thousands of people in as many clusters are."""
    from sklearn.metrics.cluster import contingency_matrix

    true, found = checks.names("labels", labels), checks.names("clusters", clusters)
    checks.same_length(labels=true, clusters=found)
    return contingency_matrix(true, found, sparse=True, dtype=np.float64)
