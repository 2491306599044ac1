import numpy as np
import pytest
from scipy.special import expit

from howsure.decide.evidence import FEATURES, PLAIN, Evidence
from howsure.decide.probability import AnswerProbabilities, UnknownRange
from howsure.numerics.isotonic import Isotonic
from howsure.numerics.link import Link
from howsure.numerics.logistic import Logistic

LOG_ODDS = np.array([-800.0, -3.0, 0.0, 2.0, 800.0])
RIGHT = Logistic((1.0, *[0.0] * (FEATURES - 1)), 0.0)
HALF = Logistic((0.0,) * (2 * PLAIN), 0.0)


def evidence() -> Evidence:
    return Evidence(LOG_ODDS, *[np.zeros(len(LOG_ODDS))] * FEATURES)


def test_what_is_not_right_is_shared() -> None:
    odds = AnswerProbabilities(Link(RIGHT), HALF).calibrated(evidence())
    assert np.allclose(expit(odds.none), (1 - expit(LOG_ODDS)) / 2)
    assert np.isfinite(odds.none).all()


def test_at_most_one_has_more_than_even_odds() -> None:
    sure = Logistic((0.0,) * (2 * PLAIN), 40.0)
    odds = AnswerProbabilities(Link(RIGHT), sure).scores(evidence())
    assert ((odds.right <= 0) | (odds.none <= 0)).all()
    assert np.allclose(odds.none[1:4], -LOG_ODDS[1:4])


def test_more_identities_speak_for_none_and_no_less_for_another() -> None:
    """By hand: right : none : another = 6 : 3 : 1, and ten times as many identities make it 6 : 30 : 1."""
    mixed = Logistic((0.0,) * (2 * PLAIN), float(np.log(3)))
    one = Evidence(*[np.full(1, np.log(6 / 4))] * (FEATURES + 1))
    before, after = (AnswerProbabilities(Link(RIGHT), mixed).calibrated(one, ratio=ratio) for ratio in (1.0, 10.0))
    assert (expit(before.right), expit(before.none)) == (pytest.approx(6 / 10), pytest.approx(3 / 10))
    assert (expit(after.right), expit(after.none)) == (pytest.approx(6 / 37), pytest.approx(30 / 37))


def test_where_nothing_was_ever_unknown_all_rivals_are_in_the_evidence() -> None:
    closed = AnswerProbabilities(Link(RIGHT), None)
    assert np.array_equal(closed.calibrated(evidence(), ratio=10.0).right, LOG_ODDS)


def test_steps_are_calibrated_but_do_not_rank() -> None:
    chances = AnswerProbabilities(Link(RIGHT, Isotonic((-3.0, 2.0), (-1.0, 1.0))), HALF)
    assert chances.calibrated(evidence()).right.tolist() == pytest.approx([-1.0, -1.0, 0.2, 1.0, 1.0])
    assert chances.scores(evidence()).right.tolist() == LOG_ODDS.tolist()


def test_reach_holds_nearly_all_it_was_drawn_around() -> None:
    rng = np.random.default_rng(0)
    unknown = Evidence(*[np.zeros(1_000)] * 7, rng.random(1_000), rng.random(1_000), np.zeros(1_000))
    reach = UnknownRange.around(unknown)
    assert (reach.uncertainty, reach.novelty) == (pytest.approx(0.99, abs=0.01), pytest.approx(0.99, abs=0.01))
    assert reach.holds(unknown).mean() == pytest.approx(0.98, abs=0.005)


def test_where_nothing_was_ever_unknown() -> None:
    assert (expit(AnswerProbabilities(Link(RIGHT), None).calibrated(evidence()).none) == 0).all()
