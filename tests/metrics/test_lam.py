import numpy as np
import pytest

from howsure.errors import InputError
from howsure.metrics import aurc, ece, lam_ausc, lam_ece


def test_unanimous_votes_are_left_out_of_the_calibration_error() -> None:
    """The worked example of the trap: 70 % unanimous and 80 % right, the rest calibrated."""
    rng = np.random.default_rng(0)
    confidence = np.where(rng.random(100_000) < 0.7, 1.0, rng.uniform(0.3, 0.99, 100_000))
    correct = rng.random(100_000) < np.where(confidence == 1, 0.8, confidence)
    assert lam_ece(confidence, correct) < 0.01
    assert ece(confidence, correct, bins=10) == pytest.approx(0.14, abs=0.02)


def test_without_unanimous_votes_it_is_the_usual_error() -> None:
    rng = np.random.default_rng(1)
    confidence, correct = rng.uniform(0, 0.999, 5_000), rng.random(5_000) < 0.5
    assert lam_ece(confidence, correct) == pytest.approx(ece(confidence, correct, bins=10))


def test_only_unanimous_votes_have_no_error_to_speak_of() -> None:
    with pytest.raises(InputError, match="one below 1"):
        lam_ece([1.0, 1.0], [True, False])
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        lam_ece([1.5, 0.5], [True, False])


def test_area_under_the_sparsification_curve() -> None:
    rng = np.random.default_rng(2)
    uncertainty = rng.random(10_000)
    correct = rng.random(10_000) > uncertainty
    assert lam_ausc(uncertainty, correct) == pytest.approx(1 - aurc(uncertainty, ~correct), abs=0.02)
    assert lam_ausc(uncertainty, correct) > lam_ausc(-uncertainty, correct)
    assert lam_ausc(uncertainty, np.ones(10_000, bool)) == pytest.approx(98 / 99)
