"""Have the queries changed since calibration? A test that may be looked at after every query."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from howsure.errors import InputError

FALSE_ALARMS = 0.01
BETS = (0.25, 0.5)  # powers: strong bets on strong changes, milder ones on mild changes
LEAST_P, MOST = 1e-12, 1e100  # a bet stays finite; less than it could win, so the proof holds


@dataclass(frozen=True)
class Reference:
    """Uncertainty and novelty of held-out queries, a random sample. Empty where embeddings keep no novelty."""

    uncertainty: tuple[float, ...]
    novelty: tuple[float, ...]


@dataclass(frozen=True)
class DriftState:
    """What is known after some queries; once `drifted`, it stays so."""

    seen: int
    evidence: float  # that queries have changed: what bets on it have made of 1
    drifted: bool


class Drift:
    """Watches whether queries are still like those of calibration, in uncertainty and in novelty.

    Each query gets a p-value: its rank among the reference and all queries before it, ties at random. While queries are
    exchangeable with the reference, these are independent and uniform, whatever the distribution. Bets `k p^(k - 1)` on
    small and on large p, begun at every moment t with a stake of 1/(t(t + 1)), then win nothing on average, so their
    capital ever reaches 1/a with probability at most a (Ville): `false_alarms` bounds the chance of any false alarm
    over an endless stream. Half of it goes to each number where there are two.

    >>> drift = Drift(Reference(uncertainty=tuple(range(100)), novelty=()))
    >>> [drift.see(200.0 + t).drifted for t in (0, 1, 2, 3, 4)]
    [False, False, True, True, True]
    """

    def __init__(self, reference: Reference, *, false_alarms: float = FALSE_ALARMS, seed: int = 0):
        if not 0 < false_alarms < 1:
            raise InputError("false alarms", expected="a share between 0 and 1", got=str(false_alarms))
        self._watched = {
            name: _Watched(values)
            for name, values in (("uncertainty", reference.uncertainty), ("novelty", reference.novelty))
            if len(set(values)) > 1  # what is always the same cannot change
        }
        self._rng = np.random.default_rng(seed)
        self._limit = 1 / false_alarms
        self.state = DriftState(0, 1.0, False)

    @property
    def watches(self) -> tuple[str, ...]:
        """The numbers it looks at; none for a model that has neither."""
        return tuple(self._watched)

    def see(self, uncertainty: float, novelty: float | None = None) -> DriftState:
        """Count one more query, and say what is known now."""
        for name, value in (("uncertainty", uncertainty), ("novelty", novelty)):
            if name in self._watched:
                if value is None:
                    raise InputError(name, expected="a number, as in calibration", got="None", fix="use the same model")
                self._watched[name].see(float(value), tie=1 - self._rng.random())
        seen = self.state.seen + 1
        evidence = max((one.capital for one in self._watched.values()), default=1.0) / max(1, len(self._watched))
        self.state = DriftState(seen, evidence, self.state.drifted or evidence >= self._limit)
        return self.state


class _Watched:
    """One number: those seen so far, sorted, and the capital of the bets against "nothing has changed"."""

    def __init__(self, values: Sequence[float]):
        self._known = sorted(values)
        self._stakes = [0.0] * (2 * len(BETS))
        self._seen = 0

    @property
    def capital(self) -> float:
        """What is staked, on average over the bets, and what is not staked yet."""
        return sum(self._stakes) / len(self._stakes) + 1 / (self._seen + 1)

    def see(self, value: float, *, tie: float) -> None:
        low, high = bisect_left(self._known, value), bisect_right(self._known, value)
        above, equal = len(self._known) - high, high - low
        p = (above + tie * (equal + 1)) / (len(self._known) + 1)
        insort(self._known, value)
        self._seen += 1
        fresh = 1 / (self._seen * (self._seen + 1))
        won = [bet * max(end, LEAST_P) ** (bet - 1) for end in (p, 1 - p) for bet in BETS]
        self._stakes = [min((stake + fresh) * win, MOST) for stake, win in zip(self._stakes, won, strict=True)]
