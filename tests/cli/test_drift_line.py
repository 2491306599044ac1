"""What `search` says where many pictures are unlike those of calibration."""

from dataclasses import replace

import numpy as np
import pytest

from decide.policies import policy
from howsure.cli.search import _watch
from howsure.decide import Reference

USUAL = np.random.default_rng(0).random(500)


def results(uncertainty: np.ndarray) -> list[dict[str, object]]:
    return [{"uncertainty": value, "novelty": None} for value in uncertainty.tolist()]


@pytest.mark.parametrize(("more", "drifted"), [(0.0, False), (1.0, True)])
def test_a_line_and_a_field(capsys: pytest.CaptureFixture[str], more: float, drifted: bool) -> None:
    watched = replace(policy(), reference=Reference(tuple(USUAL), ()))
    found = results(np.random.default_rng(1).random(40) + more)
    _watch(found, watched)
    assert {result["drift"] for result in found} == {drifted}
    assert ("not like those the model was calibrated on" in capsys.readouterr().err) == drifted


def test_pictures_in_the_order_of_their_folders_are_no_change() -> None:
    watched = replace(policy(), reference=Reference(tuple(USUAL), ()))
    found = results(np.sort(np.random.default_rng(2).random(200)))
    _watch(found, watched)
    assert {result["drift"] for result in found} == {False}


def test_without_a_policy_nothing_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    found = results(USUAL)
    _watch(found, None)
    assert {result["drift"] for result in found} == {None}
    assert capsys.readouterr().err == ""
