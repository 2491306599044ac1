import contextlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from decide.policies import policy
from howsure.decide import Policy
from howsure.errors import ModelError
from howsure.files import sealed
from howsure.numerics.isotonic import Isotonic
from howsure.numerics.link import Link
from howsure.numerics.logistic import Logistic

MODEL = policy().model


@pytest.mark.parametrize("distance", [1 / 3, None])
def test_round_trip(tmp_path: Path, distance: float | None) -> None:
    before = policy(distance=distance)
    before.save(tmp_path)
    assert Policy.load(tmp_path, model=MODEL) == before


def test_steps_survive(tmp_path: Path) -> None:
    steps = Isotonic((-2.0, 0.1), (-1.0, 1 / 3))
    before = policy()
    link = replace(before.chances.right, steps=steps)
    before = replace(
        before,
        matcher=replace(before.matcher, steps=steps),
        chances=replace(before.chances, right=link, absent=None),
        honesty={},
    )
    before.save(tmp_path)
    assert Policy.load(tmp_path, model=MODEL) == before


def test_no_limit_survives(tmp_path: Path) -> None:
    before = policy(uncertainty=None)
    before = replace(before, limits=replace(before.limits, gap=None))
    before.save(tmp_path)
    assert Policy.load(tmp_path, model=MODEL) == before


def test_threshold_is_a_probability() -> None:
    assert policy().threshold == pytest.approx(expit(1.0))


def test_threshold_is_what_the_steps_say() -> None:
    before = policy()
    link = replace(before.chances.right, steps=Isotonic((0.0, 2.0), (0.0, 4.0)))
    assert replace(before, chances=replace(before.chances, right=link)).threshold == pytest.approx(expit(2.0))


def test_pairs_match_more_rarely_among_more_identities() -> None:
    """Ten times as many identities, a tenth of the matching pairs; the evidence stays what it is."""
    rare = policy().matcher_at(1_000)
    assert rare.base_rate == pytest.approx(0.01)
    assert rare == policy().matcher.at(rare.base_rate)
    assert policy().matcher_at(None) == policy().matcher_at(100) == policy().matcher
    assert policy().matcher_at(1).base_rate < 1


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
    short = Link(Logistic((1.0, 0.0), 0.0))
    replace(before, chances=replace(before.chances, right=short)).save(tmp_path)
    with pytest.raises(ModelError, match=r"2 coefficients where there should be 11.*calibrate again"):
        Policy.load(tmp_path, model=MODEL)


def _without(key: str) -> str:
    """As if it had been written so, with a checksum that agrees."""
    keys = policy().to_json()
    del keys[key]
    return json.dumps(sealed(keys))


def test_one_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """Wherever it is, unless the content stays what it was."""
    before = policy()
    before.save(tmp_path)
    file = tmp_path / "policy.json"
    whole, rng = file.read_bytes(), np.random.default_rng(0)
    for bit in rng.choice(8 * len(whole), 1_500, replace=False).tolist():
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(bytes(flipped))
        with contextlib.suppress(ModelError):
            assert Policy.load(tmp_path, model=MODEL) == before


def test_of_an_earlier_version(tmp_path: Path) -> None:
    keys = policy().to_json()
    del keys["format"], keys["checksum"]
    (tmp_path / "policy.json").write_text(json.dumps(keys))
    with pytest.raises(ModelError, match=r"got one of an earlier version; run howsure calibrate again"):
        Policy.load(tmp_path, model=MODEL)


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
