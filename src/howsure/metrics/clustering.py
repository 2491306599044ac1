"""How well clusters agree with true labels. Item by item (B-cubed) or pair by pair; each is in [0, 1], large = good."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from howsure.metrics import checks
from howsure.metrics.checks import Floats, Ints


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
    both, together, alike = (float((n * (n - 1)).sum()) for n in _counts(labels, clusters).each())
    return Agreement(both / together if together else 1.0, both / alike if alike else 1.0)


def b_cubed(labels: ArrayLike, clusters: ArrayLike) -> Agreement:
    """Mean over items: of an item's cluster, how many share its label, and of its label, how many share its cluster.

    An item counts as a mate of itself, so a single one in its own cluster has precision 1. Every item weighs alike.

    >>> b_cubed(["a", "a", "b", "b"], [0, 0, 0, 0])
    Agreement(precision=0.5, recall=1.0)
    """
    n = _counts(labels, clusters)
    total = n.both.sum()
    precision, recall = ((n.both**2 / of).sum() / total for of in (n.cluster[n.column], n.label[n.row]))
    return Agreement(float(precision), float(recall))


@dataclass(frozen=True, eq=False)
class _Counts:
    """How many items have a label and a cluster, wherever any have both; and each alone."""

    both: Floats
    row: Ints  # which label
    column: Ints  # which cluster
    label: Floats
    cluster: Floats

    def each(self) -> tuple[Floats, Floats, Floats]:
        return self.both, self.cluster, self.label


def _counts(labels: ArrayLike, clusters: ArrayLike) -> _Counts:
    true, found = (
        np.unique(checks.names(what, values), return_inverse=True)[1]
        for what, values in (("labels", labels), ("clusters", clusters))
    )
    checks.same_length(labels=true, clusters=found)
    # Not a whole table: thousands of people in as many clusters would fill the memory with zeros.
    pairs, both = np.unique(np.stack([true, found]), axis=1, return_counts=True)
    return _Counts(
        both.astype(float), pairs[0], pairs[1], *(np.bincount(codes).astype(float) for codes in (true, found))
    )
