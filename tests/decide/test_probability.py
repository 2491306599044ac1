from dataclasses import fields

import numpy as np
import pytest
from scipy.special import expit

from howsure.decide.evidence import FEATURES, PLAIN, Evidence
from howsure.decide.probability import AnswerProbabilities, fit_absent, meaning_of
from howsure.numerics.isotonic import Isotonic
from howsure.numerics.link import Link
from howsure.numerics.logistic import Logistic

LOG_ODDS = np.array([-800.0, -3.0, 0.0, 2.0, 800.0])
RIGHT = Logistic(tuple(float(name == "margin") for name in FEATURES), 0.0)
HALF = Logistic((0.0,) * (2 * PLAIN), 0.0)


def evidence(log_odds: np.ndarray = LOG_ODDS) -> Evidence:
    """By the margin alone."""
    others = {field.name: np.zeros(len(log_odds)) for field in fields(Evidence)}
    return Evidence(**others | {"margin": log_odds})


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
    one = evidence(np.full(1, np.log(6 / 4)))
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


def test_a_score_gets_its_meaning_and_keeps_its_order() -> None:
    rng = np.random.default_rng(0)
    score = rng.normal(size=4_000)
    right = rng.random(4_000) < expit(3 * score - 1)
    folds = np.arange(4_000) % 5
    meaning = meaning_of(score, right, folds)
    assert meaning.logistic.coefficients[0] == pytest.approx(3, rel=0.1)
    assert meaning.logistic.offset == pytest.approx(-1, abs=0.15)
    useless = meaning_of(-score, right, folds)
    assert 0 < useless.logistic.coefficients[0] < 0.01
    assert meaning_of(score, np.ones(4_000, bool), folds).logistic == Logistic((1.0,), 0.0)


def test_nothing_absent_where_everybody_is_known() -> None:
    wrong = np.zeros(len(LOG_ODDS), bool)
    assert fit_absent(evidence(), wrong, np.ones(len(LOG_ODDS), bool)) is None
    never = fit_absent(evidence(), wrong, np.zeros(len(LOG_ODDS), bool))  # another item was never the right one
    assert never is not None
    assert never.offset == pytest.approx(np.log(6))


def test_where_nothing_was_ever_unknown() -> None:
    assert (expit(AnswerProbabilities(Link(RIGHT), None).calibrated(evidence()).none) == 0).all()
