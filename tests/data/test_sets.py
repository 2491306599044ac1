import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from howsure.data import load
from howsure.data.sets import SETS
from howsure.errors import DataError

ROOT = Path(os.environ.get("HOWSURE_DATA", "unset"))


def needs(name: str) -> pytest.MarkDecorator:
    there = (ROOT / SETS[name].folder).is_dir()
    return pytest.mark.skipif(not there, reason=f"set HOWSURE_DATA to a folder with {SETS[name].folder}")


# source, pictures, classes, first labels
PUBLISHED = [
    ("mnist:train", 60_000, 10, ("5", "0", "4", "1", "9")),
    ("mnist:test", 10_000, 10, ("7", "2", "1", "0", "4")),
    ("fashion-mnist:train", 60_000, 10, ("Ankle boot", "T-shirt/top", "T-shirt/top", "Dress", "T-shirt/top")),
    ("fashion-mnist:test", 10_000, 10, ("Ankle boot", "Pullover", "Trouser", "Trouser", "Shirt")),
    ("cifar10:train", 50_000, 10, ("frog", "truck", "truck", "deer", "automobile")),
    ("cifar10:test", 10_000, 10, ("cat", "ship", "ship", "airplane", "frog")),
    ("svhn:test", None, 10, ("0", "0")),
    ("omniglot:train", 19_280, 964, ("Alphabet_of_the_Magi/character01",) * 20),
    ("omniglot:test", 13_180, 659, ("Angelic/character01",) * 20),
    ("lfw", None, None, ("Aaron_Peirsol",)),
    ("cub:train", 5_994, 200, ("001.Black_footed_Albatross",)),
    ("cub:test", 5_794, 200, ("001.Black_footed_Albatross",)),
    ("flickr8k:dev", 1_000, 0, (None,)),
    ("flickr8k:test", 1_000, 0, (None,)),
]


@pytest.mark.parametrize(
    ("source", "count", "classes", "first"),
    [pytest.param(*row, marks=needs(row[0].partition(":")[0]), id=row[0]) for row in PUBLISHED],
)
def test_counts_and_first_labels(source: str, count: int | None, classes: int | None, first: tuple[str, ...]) -> None:
    images = load(source)
    assert images.name == source
    assert count is None or len(images) == count
    assert classes is None or len(images.classes) == classes
    assert images.labels[: len(first)] == first
    for i in (0, len(images) // 2, len(images) - 1):
        assert images.image(i).mode in ("L", "RGB")


@needs("cub")
@needs("flickr8k")
@needs("mnist")
@needs("omniglot")
@pytest.mark.parametrize("name", ["mnist", "omniglot", "cub", "flickr8k"])
def test_all_joins_the_splits_which_do_not_overlap(name: str) -> None:
    parts = [load(f"{name}:{split}").ids for split in SETS[name].splits]
    everything = load(f"{name}:all").ids
    assert sum(map(len, parts)) == len(everything)
    assert set().union(*parts) == set(everything)
    assert load(name).ids == parts[0]


@needs("svhn")
def test_a_set_with_one_split_is_that_split() -> None:
    assert load("svhn").ids == load("svhn:all").ids == load("svhn:test").ids
    with pytest.raises(DataError, match="expected svhn:test, svhn:all or svhn"):
        load("svhn:train")


@needs("mnist")
def test_mean_and_spread_of_mnist_are_the_well_known_ones() -> None:
    array = load("mnist").array  # type: ignore[attr-defined]
    counts = np.bincount(array.ravel(), minlength=256) / array.size
    values = np.arange(256) / 255
    mean = counts @ values
    assert round(mean, 4) == 0.1307
    assert round(np.sqrt(counts @ (values - mean) ** 2), 4) == 0.3081


@needs("cifar10")
def test_colours_of_cifar10_are_in_the_right_order() -> None:
    array = load("cifar10").array  # type: ignore[attr-defined]
    means = array.sum((0, 1, 2), dtype=np.int64) / (array.size / 3 * 255)
    np.testing.assert_allclose(means, (0.4914, 0.4822, 0.4465), atol=1e-4)


@needs("fashion-mnist")
@pytest.mark.parametrize("damage", ["byte", "cut", "empty"])
def test_a_damaged_copy_fails_its_checksum(damage: str, tmp_path: Path) -> None:
    raw = tmp_path / "FashionMNIST" / "raw"
    shutil.copytree(ROOT / "FashionMNIST" / "raw", raw)
    file = raw / "t10k-images-idx3-ubyte.gz"
    content = bytearray(file.read_bytes())
    content[1000] ^= 1
    file.write_bytes({"byte": content, "cut": content[:-5], "empty": b""}[damage])
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte.gz: expected MD5 bef4ecab.*fetch it again"):
        load("fashion-mnist:test", root=tmp_path)
    file.unlink()
    with pytest.raises(DataError, match=r"no such file or directory \(.*t10k-images-idx3-ubyte.gz\)"):
        load("fashion-mnist:test", root=tmp_path)


@needs("cifar10")
def test_a_damaged_cifar_batch_fails_its_checksum(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    shutil.copy(ROOT / "cifar-10-batches-bin" / "batches.meta.txt", folder)
    (folder / "test_batch.bin").write_bytes(b"\0" * 3073)
    with pytest.raises(DataError, match=r"test_batch.bin: expected MD5 803d5f7f.*\(3,073 bytes\)"):
        load("cifar10:test", root=tmp_path)
    (folder / "batches.meta.txt").write_text("airplane\n")
    with pytest.raises(DataError, match="expected 10 class names, got 1"):
        load("cifar10:test", root=tmp_path)


def test_lists_of_cub_must_agree(tmp_path: Path) -> None:
    folder = tmp_path / "CUB_200_2011"
    folder.mkdir()
    lists = {
        "images.txt": "1 a/x.jpg\n2 b/y z.jpg\n",
        "image_class_labels.txt": "1 1\n2 2\n",
        "train_test_split.txt": "1 1\n2 0\n",
        "classes.txt": "1 a\n2 b\n",
    }
    for name, text in lists.items():
        (folder / name).write_text(text)
    assert load("cub:all", root=tmp_path).labels == ("a", "b")
    assert load("cub:test", root=tmp_path).paths == (folder / "images" / "b/y z.jpg",)
    (folder / "train_test_split.txt").write_text("1 1\n")
    with pytest.raises(DataError, match="lists that agree"):
        load("cub", root=tmp_path)
    (folder / "train_test_split.txt").write_text("1 1\n2\n")
    with pytest.raises(DataError, match="line 2: expected a number and a value"):
        load("cub", root=tmp_path)
