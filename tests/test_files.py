import os
import stat
from pathlib import Path

import pytest

from howsure.files import write_whole


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
