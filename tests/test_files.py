import json
import os
import stat
from pathlib import Path

import pytest

from howsure.files import sealed, unsealed, write_whole


def test_replaces_the_content(tmp_path: Path) -> None:
    file = tmp_path / "card.json"
    write_whole(file, b"old")
    write_whole(file, b"new")
    assert file.read_bytes() == b"new"
    assert [left.name for left in tmp_path.iterdir()] == ["card.json"]


def test_others_may_read_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "card.json", b"")
    assert stat.S_IMODE((tmp_path / "card.json").stat().st_mode) == 0o644


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_failure_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    file = tmp_path / "card.json"
    write_whole(file, b"old")
    monkeypatch.setattr(*{"fsync": (os, "fsync", fail), "replace": (Path, "replace", fail)}[moment])
    with pytest.raises(OSError, match="disk full"):
        write_whole(file, b"new")
    assert file.read_bytes() == b"old"
    assert [left.name for left in tmp_path.iterdir()] == ["card.json"]


def test_everything_is_flushed_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (moments.append("flush"), fsync(handle))[1])
    monkeypatch.setattr(Path, "replace", lambda a, b: (moments.append("rename"), replace(a, b))[1])
    write_whole(tmp_path / "card.json", b"x")
    assert moments == ["flush", "rename", "flush"]


KEYS = {"b": [1, 2.5, None, True, "é"], "a": {"y": 1e-300, "x": float("inf")}, "n": -1}


def test_sealed_keys_come_back_as_json_gives_them() -> None:
    written = json.dumps(sealed(KEYS | {"pair": (1, 2), "by number": {3: 4, 20: 5}}), indent=2)
    assert unsealed(json.loads(written), "it") == KEYS | {"pair": [1, 2], "by number": {"3": 4, "20": 5}}
    assert sealed(sealed(KEYS)) == sealed(KEYS)


def test_order_and_layout_do_not_matter() -> None:
    keys = sealed(KEYS)
    assert unsealed(dict(reversed(keys.items())), "it") == KEYS


@pytest.mark.parametrize(
    "changed",
    [
        {"n": 1},
        {"n": -1.0},
        {"more": None},
        {"b": [2.5, 1, None, True, "é"]},
        {"b": [1, 2.5, None, 1, "é"]},
        {"checksum": sealed({})["checksum"]},
        {"checksum": None},
    ],
)
def test_what_was_changed_does_not_come_back(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="it does not agree with its checksum"):
        unsealed(sealed(KEYS) | changed, "it")


def test_a_missing_key_or_checksum_is_missed() -> None:
    keys = sealed(KEYS)
    with pytest.raises(ValueError, match="does not agree"):
        unsealed({name: value for name, value in keys.items() if name != "n"}, "it")
    with pytest.raises(ValueError, match="it has no checksum"):
        unsealed(KEYS, "it")
