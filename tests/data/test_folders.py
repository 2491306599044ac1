import os
from pathlib import Path

import pytest

from data.pictures import noise
from howsure.data import load
from howsure.data.folders import load_folder
from howsure.errors import DataError


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        noise(4, 4).save(root / name, "PNG")


def test_labels_are_the_first_folder_and_the_order_is_sorted(tmp_path: Path) -> None:
    root = tmp_path / "zoo"
    put(root, "dog/2.png", "dog/1.JPG", "cat/home/deep/er/9.webp", "cat/0.png", "alone.png")
    images = load_folder(root)
    assert images.ids == (
        "zoo/alone.png",
        "zoo/cat/0.png",
        "zoo/cat/home/deep/er/9.webp",
        "zoo/dog/1.JPG",
        "zoo/dog/2.png",
    )
    assert images.labels == (None, "cat", "cat", "dog", "dog")
    assert images.name == "zoo"
    assert images.classes == ("cat", "dog")


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    put(tmp_path, "b.png", "a.png")
    assert load_folder(tmp_path).labels == (None, None)


def test_hidden_and_other_files_are_passed_over(tmp_path: Path) -> None:
    put(
        tmp_path,
        "cat/1.png",
        "cat/.2.png",
        ".cache/3.png",
        "cat/.DS_Store",
        "cat/Thumbs.db",
        "cat/notes.txt",
        "cat/png",
    )
    assert load_folder(tmp_path).ids == (f"{tmp_path.name}/cat/1.png",)


def test_what_pillow_cannot_read_is_listed_not_passed_over(tmp_path: Path) -> None:
    put(tmp_path, "cat/1.heic")
    assert len(load_folder(tmp_path)) == 1


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    root = tmp_path / "zoo"
    put(root, "cat/1.png")
    put(tmp_path / "elsewhere", "2.png")
    (root / "dog").symlink_to(tmp_path / "elsewhere")
    (root / "cat" / "up").symlink_to(root)
    (root / "cat" / "same").symlink_to(root / "cat")
    (root / "self").symlink_to("self")
    assert load_folder(root).ids == ("zoo/cat/1.png", "zoo/dog/2.png")


def test_a_folder_named_like_a_picture_is_a_folder(tmp_path: Path) -> None:
    put(tmp_path, "odd.png/1.png")
    assert load_folder(tmp_path).labels == ("odd.png",)


def test_names_that_are_not_utf8_become_storable_ids(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)  # noqa: PTH102 (the name is bytes)
    noise(4, 4).save(Path(os.fsdecode(folder)) / "1.png")
    images = load_folder(tmp_path)
    assert images.labels == (r"caf\xe9",)
    assert images.ids[0].encode("utf-8")
    assert images.image(0).size == (4, 4)


def test_an_empty_folder_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DataError, match=r"\.jpg.*got none; lay them out as FOLDER/LABEL/PICTURE"):
        load_folder(tmp_path)


def test_a_folder_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "cat/1.png")

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)  # root may read everything, so the refusal is played
    with pytest.raises(DataError, match="permission denied"):
        load_folder(tmp_path)


def test_the_name_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "zoo", "cat/1.png")
    monkeypatch.chdir(tmp_path / "zoo")
    assert load(".").ids == ("zoo/cat/1.png",)
    assert load("../zoo/").ids == ("zoo/cat/1.png",)


@pytest.mark.parametrize("above", ["", "images/"])
def test_splits_are_no_labels(tmp_path: Path, above: str) -> None:
    put(tmp_path, f"{above}train/a/1.png", f"{above}train/b/1.png", f"{above}Val/a/2.png", f"{above}Val/b/deep/2.png")
    with pytest.raises(DataError, match="one folder a label") as caught:
        load(tmp_path)
    assert "train" in caught.value.got
    for split in ("train", "Val"):
        assert str(tmp_path / above / split) in caught.value.fix
        assert load(tmp_path / above / split).classes == ("a", "b")


@pytest.mark.parametrize(
    "names",
    [
        ("train/1.png", "test/1.png"),  # pictures of trains and of tests
        ("train/old/1.png", "bus/old/1.png"),
        ("train/a/1.png", "train/b/1.png"),  # one alone may be a label with views below it
        ("train/a/1.png", "val/a/1.png", "loose/1.png"),
        ("x/train/a/1.png", "y/val/a/1.png"),
    ],
)
def test_labels_may_have_the_names_of_splits(tmp_path: Path, names: tuple[str, ...]) -> None:
    put(tmp_path, *names)
    assert set(load(tmp_path).labels) == {name.partition("/")[0] for name in names}
