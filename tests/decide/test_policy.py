import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.special import expit

from decide.policies import policy
from howsure.decide import Policy
from howsure.errors import ModelError

MODEL = policy().model


@pytest.mark.parametrize("unknown_at", [-1 / 3, None])
def test_round_trip(tmp_path: Path, unknown_at: float | None) -> None:
    before = policy(unknown_at=unknown_at)
    before.save(tmp_path)
    assert Policy.load(tmp_path, model=MODEL) == before


def test_an_endless_limit_survives(tmp_path: Path) -> None:
    before = policy()
    before = replace(before, limits=replace(before.limits, neighbour_distance=math.inf))
    before.save(tmp_path)
    assert Policy.load(tmp_path, model=MODEL) == before


def test_threshold_is_a_probability() -> None:
    assert policy().threshold == pytest.approx(expit(1.0))


def test_no_policy_is_none(tmp_path: Path) -> None:
    assert Policy.load(tmp_path, model=MODEL) is None


def test_of_other_weights(tmp_path: Path) -> None:
    policy().save(tmp_path)
    with pytest.raises(ModelError, match="calibrate again") as caught:
        Policy.load(tmp_path, model="fedcba")
    assert "fedcba" in caught.value.expected
    assert caught.value.got == MODEL


def test_of_another_evidence(tmp_path: Path) -> None:
    before = policy()
    replace(before, confidence=replace(before.confidence, coefficients=(1.0, 0.0))).save(tmp_path)
    with pytest.raises(ModelError, match=r"2 coefficients where there should be 5.*calibrate again"):
        Policy.load(tmp_path, model=MODEL)


def _without(key: str) -> str:
    policy().save(folder := Path.cwd())
    keys = json.loads((folder / "policy.json").read_text())
    del keys[key]
    return json.dumps(keys)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", "{}", '"policy"', '{"matcher": null}', "without matcher", "without certificate", "matcher"],
)
def test_damaged(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if content.startswith("without"):
        content = _without(content.split()[1])
    elif content == "matcher":
        content = _without("model").replace('"scale": 4.0', '"scale": -4.0')
    (tmp_path / "policy.json").write_text(content)
    with pytest.raises(ModelError, match="calibrate again"):
        Policy.load(tmp_path, model=MODEL)


def test_text_in_no_encoding(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match="calibrate again"):
        Policy.load(tmp_path, model=MODEL)
