import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import howsure.data as data
from data.pictures import noise
from howsure.data import load
from howsure.data.sets import SETS
from howsure.errors import DataError


def put(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        noise(4, 4).save(root / name)
    return root


def test_digits_are_always_there() -> None:
    from sklearn.datasets import load_digits

    images, bunch = load("digits:all"), load_digits()
    assert images.labels == tuple(map(str, bunch.target))
    pixels = np.stack([np.asarray(images.image(i)) for i in range(len(images))])
    np.testing.assert_array_equal(np.rint(pixels * (16 / 255)), bunch.images)
    assert pixels.max() == 255


def test_a_bare_name_means_train_and_the_splits_part_the_whole() -> None:
    bare, train, test, everything = (load(f"digits{split}") for split in ("", ":train", ":test", ":all"))
    assert bare.ids == train.ids
    assert bare.name == "digits:train"
    assert sorted(train.ids + test.ids) == list(everything.ids)


def test_labels_behind_an_at_sign() -> None:
    assert load("digits:test@8,9").classes == ("8", "9")
    assert load("digits@!8, 9").classes == tuple("01234567")
    assert len(load("digits@8,9")) + len(load("digits@!8,9")) == len(load("digits"))
    assert load("digits:test@8,9").name == "digits:test@8,9"


@pytest.mark.parametrize("source", ["digits@10", "digits@", "digits@8,", "digits@!0,1,2,3,4,5,6,7,8,9"])
def test_labels_that_leave_nothing_or_do_not_exist(source: str) -> None:
    with pytest.raises(DataError, match=r"labels of digits:train: expected one of 0, 1|every label left out"):
        load(source)


def test_labels_work_on_folders_and_tables(tmp_path: Path) -> None:
    root = put(tmp_path / "zoo", "cat/1.png", "dog/2.png", "cow/3.png")
    assert load(f"{root}@cat,cow").labels == ("cat", "cow")
    (tmp_path / "t.csv").write_text("path,label\na.png,x\nb.png,y\n")
    assert load(f"{tmp_path}/t.csv@!x").ids == ("b.png",)


def test_a_path_with_an_at_sign_is_a_path(tmp_path: Path) -> None:
    root = put(tmp_path / "me@home", "cat/1.png")
    assert load(str(root)).labels == ("cat",)
    assert load(f"{root}@cat").ids == ("me@home/cat/1.png",)


def test_the_set_goes_before_a_folder_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "digits", "cat/1.png")
    monkeypatch.chdir(tmp_path)
    assert len(load("digits")) > 800
    for folder in ("./digits", "digits/", Path("digits")):
        assert load(folder).ids == ("digits/cat/1.png",)


def test_a_single_picture(tmp_path: Path) -> None:
    images = load(put(tmp_path, "new.png") / "new.png")
    assert images.ids == ((tmp_path / "new.png").as_posix(),)
    assert images.labels == (None,)
    assert images.image(0).size == (4, 4)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("fashion-mist:test", "fashion-mnist"),
        ("FashionMNIST", "fashion-mnist"),
        ("cifar-10", "cifar10"),
        ("digit@8", "digits"),
    ],
)
def test_a_mistyped_set_gets_a_suggestion(typed: str, meant: str) -> None:
    with pytest.raises(DataError, match=rf"nothing of that name; did you mean .*{meant}"):
        load(typed)


def test_a_mistyped_path_gets_a_suggestion(tmp_path: Path) -> None:
    put(tmp_path, "photos/cat/1.png")
    with pytest.raises(DataError, match=r"did you mean photos\?"):
        load(tmp_path / "phtos")


@pytest.mark.parametrize(
    "typed", ["", "@", "a\0b", "/no/such/place", "x" * 5000, "qqq:::@@", "https://example.org/a.png"]
)
def test_nonsense_gets_a_list_of_what_would_do(typed: str) -> None:
    with pytest.raises(DataError, match=r"a folder, a table .*digits"):
        load(typed)


def test_an_unknown_split_lists_those_that_exist() -> None:
    with pytest.raises(
        DataError, match=r"expected digits:train, digits:test, digits:all or digits, got the split 'val'"
    ):
        load("digits:val")
    with pytest.raises(DataError, match=r"expected lfw:all or lfw, got the split 'train'"):
        load("lfw:train")


@pytest.mark.parametrize("name", [name for name in SETS if name != "digits"])
def test_a_missing_set_says_what_and_where_from(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOWSURE_DATA", raising=False)
    with pytest.raises(DataError, match=r"HOWSURE_DATA is not set; get it from .* put it under"):
        load(name)
    monkeypatch.setenv("HOWSURE_DATA", str(tmp_path))
    with pytest.raises(DataError, match=f"its files in {tmp_path}/{SETS[name].folder}, got no such file"):
        load(name)
    with pytest.raises(DataError, match="got no such file"):
        load(name, root=tmp_path / "elsewhere")


def test_an_empty_set_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / "lfw").mkdir()
    with pytest.raises(DataError, match="no picture in it"):
        load("lfw", root=tmp_path)


def test_the_door_is_what_it_lists_and_opens_without_torch() -> None:
    assert all(hasattr(data, name) for name in data.__all__)
    code = "import sys, howsure.data; sys.exit(any(name in sys.modules for name in ('torch', 'sklearn', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
