"""Sets that hold the right answer as often as they say: by hand, and in a world whose future can be asked."""

from pathlib import Path

import numpy as np
import pytest

from decide.test_calibration import GALLERY, Future, made, pictures
from howsure import Gallery
from howsure.decide import PredictionSet, SetRule
from howsure.decide.prediction_sets import behind, set_rule
from howsure.errors import CalibrationError, InputError


def test_by_hand() -> None:
    """Of four known queries one is not found; the pictures of the others' identities lie at 1, at 2, and at 4 and 8."""
    distances = np.array([[1.0, 2.0, 4.0, 8.0]] * 5)
    identities = np.array([["a", "b", "c", "c"]] * 5, dtype=object)
    wanted, known = np.array(["a", "b", "c", "z", None], dtype=object), np.array([True, True, True, True, False])
    rule = set_rule(distances, identities, np.array([5.0, 4.0, 3.0, 2.0, 1.0]), wanted, known)
    assert np.exp(rule.known) == pytest.approx([1, 2**12, 1 / (4**-12 + 8**-12)])
    assert (rule.asked, rule.unknown) == (4, (1.0,))
    near, far = rule.sets(distances[:2], identities[:2], np.array([0.9, 1.1]), probability=0.4)  # the second of five
    assert near == PredictionSet(("a", "b"), True, 0.4)
    assert far == PredictionSet(("a", "b"), False, 0.4)  # surer than the unknown query was
    (wide,) = rule.sets(distances[:1], identities[:1], np.array([9.0]), probability=0.6)
    assert wide == PredictionSet(("a", "b", "c"), True, 0.6)  # one unknown query is too few for that
    with pytest.raises(CalibrationError, match=r"in 80.0% of cases, got 3 of 4"):
        rule.sets(distances[:1], identities[:1], np.array([9.0]), probability=0.8)


def test_pictures_of_an_identity_speak_together() -> None:
    """At any scale; that of the best match is never behind, even where more speaks for another."""
    distances = np.array([[1.0, 1.01, 1.02, 2.0], [0.0, 1.0, 2.0, 3.0]])
    identities = np.array([["a", "b", "b", "c"], ["a", "b", "c", "a"]], dtype=object)
    back = behind(distances, identities)
    most = 1.01**-12 + 1.02**-12
    assert back[0] == pytest.approx([0, 0, 0, np.log(most * 2**12)])
    assert behind(70 * distances, identities)[0] == pytest.approx(back[0])
    assert back[1, 0] == back[1, 3] == 0
    assert back[1, 2] > back[1, 1] > 100  # nothing is as near as no distance at all
    alone = np.array([["a", "b", "d", "c"]], dtype=object)
    assert behind(distances[:1], alone)[0, 1] == pytest.approx(12 * np.log(1.01))


@pytest.mark.parametrize("probability", [0.7, 0.9])
def test_they_hold_the_right_answer_as_often_as_they_say(probability: float) -> None:
    """On average over calibrations, for known and for unknown queries alike; and they are no larger than needed."""
    rng = np.random.default_rng(0)
    coming = Future(pictures(2_000, rng, unknowns=0.3))
    held, open_, size = [], [], []
    for seed in range(8):
        policy = made(pictures(400, rng, unknowns=0.3), max_error=0.25, seed=seed)
        done = coming.searched(policy)
        score = policy.chances.right.score(done.evidence.features())
        found = policy.sets.sets(done.distances, done.identities, score, probability=probability)
        inside = [name in one.identities for name, one in zip(coming.wanted, found, strict=True)]
        held.append(np.array(inside)[coming.known].mean())
        open_.append(np.array([one.unknown for one in found])[~coming.known].mean())
        size.append(np.mean([len(one.identities) for one in found]))
    for rates in (held, open_):
        assert np.mean(rates) > probability - 3 * np.std(rates) / len(rates) ** 0.5 - 0.01
    assert np.mean(open_) < probability + 0.05
    assert np.mean(held) < max(probability, coming.right(policy)[coming.known].mean()) + 0.05  # the nearest is in
    assert np.mean(size) < 4


def test_they_are_kept_and_asked_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    queries, new = pictures(400, rng, unknowns=0.2), pictures(20, rng)
    with Gallery.create(tmp_path / "gallery") as gallery:
        gallery.add(GALLERY.embedding, ids=range(len(GALLERY.labels)), labels=GALLERY.labels)
        with pytest.raises(CalibrationError, match="expected a calibrated gallery, got no policy"):
            gallery.ask(new.embedding, sets=True)
        gallery.calibrate(queries.embedding, queries.labels, max_error=0.25)
    with Gallery.open(tmp_path / "gallery") as gallery:
        assert gallery.ask(new.embedding)[0].set is None
        wide, narrow = (gallery.ask(new.embedding, sets=sets) for sets in (True, 0.5))
        for one, other in zip(wide, narrow, strict=True):
            assert one.set is not None
            assert other.set is not None
            assert one.set.probability == 0.95
            assert set(other.set.identities) <= set(one.set.identities)
            assert one.set.identities[0] == one.matches[0].label
        for wrong in (1.0, -0.5):
            with pytest.raises(InputError, match="sets: expected True, or a probability between 0 and 1"):
                gallery.ask(new.embedding, sets=wrong)


def test_a_rule_survives() -> None:
    rule = SetRule((0.0, 0.5), 3, (1.0,))
    assert SetRule.from_json({"known": [0.0, 0.5], "asked": 3, "unknown": [1.0]}) == rule
