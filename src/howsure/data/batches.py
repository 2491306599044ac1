"""Batches of P classes x K pictures, as metric learning needs them."""

from collections.abc import Iterator, Sequence

import numpy as np

from howsure.data.suggest import listed
from howsure.errors import InputError


class BalancedBatches:
    """Indices for batches of `classes` different classes with `per_class` pictures each.

    An epoch draws about as many pictures as there are, but every class equally often. Classes, and pictures within
    a class, are dealt from shuffled decks, each deck to its end before the next. No picture is twice in a batch unless
    its class has fewer than `per_class`. What an epoch draws depends on the seed and its number only, so a run that
    stops resumes exactly.

    >>> batches = BalancedBatches([0, 0, 0, 1, 1, 2, 2, 2], classes=2, per_class=2, seed=0)
    >>> len(batches), [batch.shape for batch in batches.epoch(0)]
    (2, [(4,), (4,)])
    """

    def __init__(self, labels: Sequence[int] | np.ndarray, *, classes: int, per_class: int, seed: int):
        for name, value in (("classes", classes), ("per_class", per_class)):
            if value < 1:
                raise InputError(name, expected="at least 1", got=str(value))
        names, codes = np.unique(np.asarray(labels), return_inverse=True)
        if len(names) < classes:
            got = f"{len(names)} ({listed([str(name) for name in names])})"
            raise InputError("labels", expected=f"at least {classes} classes", got=got, fix="lower `classes`")
        self.classes, self.per_class, self.seed = classes, per_class, seed
        self._members = [np.flatnonzero(codes == code) for code in range(len(names))]

    def __len__(self) -> int:
        pictures = sum(map(len, self._members))
        return -(-pictures // (self.classes * self.per_class))

    def epoch(self, number: int) -> Iterator[np.ndarray]:
        """The batches of one epoch: P x K indices each, the K of a class next to each other."""
        rng = np.random.default_rng([self.seed, number])
        of_class = [_dealt(members, self.per_class, rng=rng) for members in self._members]
        hands = _dealt(np.arange(len(self._members)), self.classes, rng=rng)
        for _ in range(len(self)):
            yield np.concatenate([next(of_class[code]) for code in next(hands)])


def _dealt(items: np.ndarray, size: int, *, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Hands of `size` items for ever, deck after shuffled deck; no item twice in a hand if there are enough."""
    repeats = -(-size // len(items)) - 1  # whole decks that every hand must contain
    rest = items[:0]
    while True:
        whole = np.tile(items, repeats)
        hand, rest = rest[: size - len(whole)], rest[size - len(whole) :]
        if missing := size - len(whole) - len(hand):
            deck = rng.permutation(items)
            fits = np.flatnonzero(~np.isin(deck, hand))[:missing]
            hand, rest = np.concatenate([hand, deck[fits]]), np.delete(deck, fits)
        yield np.concatenate([whole, hand])
