"""No alarm where nothing changes, however often one looks; an alarm soon where something does."""

import numpy as np
import pytest

from howsure.decide import Drift, Reference
from howsure.errors import InputError

STREAMS, LENGTH, ALARMS = 200, 200, 0.1


def reference(rng: np.random.Generator, n: int = 200) -> Reference:
    """Uncertainty and novelty of the same queries; they have much to do with each other."""
    common = rng.normal(size=n)
    return Reference(tuple(np.exp(common)), tuple(1 / (1 + np.exp(-common - rng.normal(size=n)))))


def alarmed(drift: Drift, uncertainty: np.ndarray, novelty: np.ndarray) -> int | None:
    """After how many queries it said so; None if it never did."""
    for seen, (u, v) in enumerate(zip(uncertainty.tolist(), novelty.tolist(), strict=True), 1):
        if drift.see(u, v).drifted:
            return seen
    return None


def test_false_alarms_are_as_rare_as_stated() -> None:
    """Looked at after each of 200 queries, in 200 worlds with a small reference of their own."""
    rng = np.random.default_rng(0)
    found = 0
    for seed in range(STREAMS):
        known = reference(rng, 50)
        coming = reference(rng, LENGTH)
        watch = Drift(known, false_alarms=ALARMS, seed=seed)
        found += alarmed(watch, np.array(coming.uncertainty), np.array(coming.novelty)) is not None
    assert found / STREAMS <= ALARMS  # the bound is generous: nowhere near it


def test_ties_are_no_alarm() -> None:
    """Numbers of which many are equal: without a lot between ties this would look like a change."""
    rng = np.random.default_rng(1)
    draw = lambda n: rng.integers(0, 3, n).astype(float)  # noqa: E731
    found = [
        alarmed(Drift(Reference(tuple(draw(100)), ()), false_alarms=0.2, seed=seed), draw(200), np.zeros(200))
        for seed in range(100)
    ]
    assert np.mean([seen is not None for seen in found]) <= 0.2


@pytest.mark.parametrize(
    ("change", "soon"),
    [
        (lambda u, v: (3 * u, v), 60),
        (lambda u, v: (u / 3, v), 60),
        (lambda u, v: (u, 1 - 0.02 * v), 25),
        (lambda u, v: (u, 0.02 * v), 25),
    ],
    ids=["three times as unsure", "a third as unsure", "novel", "too typical"],
)
def test_a_change_is_noticed_soon(change, soon: int) -> None:
    """Soon after it happens, also where nothing happened for long."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        watch, quiet = Drift(reference(rng, 1_000)), reference(rng, 500)
        assert alarmed(watch, np.array(quiet.uncertainty), np.array(quiet.novelty)) is None
        coming = reference(rng, 200)
        seen = alarmed(watch, *change(np.array(coming.uncertainty), np.array(coming.novelty)))
        assert seen is not None
        assert seen <= 2 * soon


def test_an_alarm_stays() -> None:
    watch = Drift(Reference(tuple(range(1_000)), ()))
    while not watch.see(5_000.0).drifted:
        pass
    for value in range(300):
        state = watch.see(float(value))
    assert state.drifted
    assert state.seen == watch.state.seen > 300


def test_what_never_varies_is_not_watched() -> None:
    point = Drift(Reference((0.0, 0.0, 0.0), ()))
    assert point.watches == ()
    assert not any(point.see(9.0).drifted for _ in range(100))
    assert Drift(Reference((0.0, 1.0), ())).watches == ("uncertainty",)


def test_a_missing_novelty() -> None:
    with pytest.raises(InputError, match="novelty"):
        Drift(Reference((0.0, 1.0), (0.0, 1.0))).see(0.5)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_impossible_rates(rate: float) -> None:
    with pytest.raises(InputError, match="false alarms"):
        Drift(Reference((0.0, 1.0), ()), false_alarms=rate)
