"""Sets whose layout is folders: SVHN (as pictures), Omniglot, Labeled Faces in the Wild, Market-1501."""

from pathlib import Path

from howsure.data.folders import first_folder, images_below
from howsure.data.images import FileImages
from howsure.data.sets.published import PublishedSet

_OMNIGLOT_PARTS = {"train": "images_background", "test": "images_evaluation"}
_MARKET_PARTS = {"train": "bounding_box_train", "test": "bounding_box_test", "query": "query"}


def _read_svhn(folder: Path, splits: tuple[str, ...]) -> FileImages:
    parts = [images_below(folder / split, name=f"svhn/{split}", label=first_folder) for split in splits]
    return _joined("svhn", parts)


def _read_omniglot(folder: Path, splits: tuple[str, ...]) -> FileImages:
    names = [_OMNIGLOT_PARTS[split] for split in splits]
    return _joined("omniglot", [images_below(folder / n, name=f"omniglot/{n}", label=_character) for n in names])


def _character(relative: Path) -> str:
    return relative.parent.as_posix()  # alphabet/character: the numbers of characters repeat in every alphabet


def _read_market(folder: Path, splits: tuple[str, ...]) -> FileImages:
    parts = [images_below(folder / _MARKET_PARTS[s], name=f"market1501/{s}", label=_person) for s in splits]
    return _joined("market1501", parts)


def _person(relative: Path) -> str:
    return relative.name.split("_")[0]  # 0002_c1s1_000451_03: person, camera and sequence, frame, box


def _joined(name: str, parts: list[FileImages]) -> FileImages:
    ids = tuple(i for part in parts for i in part.ids)
    labels = tuple(label for part in parts for label in part.labels)
    return FileImages(name, ids, labels, tuple(file for part in parts for file in part.files))


SVHN = PublishedSet(
    name="svhn",
    splits=("test",),
    folder="svhn",
    origin="Netzer et al., ufldl.stanford.edu/housenumbers (cropped digits, one picture a file: test/DIGIT/NNNNN.png)",
    read=_read_svhn,
)
OMNIGLOT = PublishedSet(
    name="omniglot",
    splits=("train", "test"),
    folder="omniglot",
    origin="Lake, github.com/brendenlake/omniglot (images_background and images_evaluation)",
    read=_read_omniglot,
)
LFW = PublishedSet(
    name="lfw",
    splits=(),
    folder="lfw",
    origin="University of Massachusetts, vis-www.cs.umass.edu/lfw (PERSON/PERSON_NNNN pictures)",
    read=lambda folder, _: images_below(folder, name="lfw", label=first_folder),
)
MARKET1501 = PublishedSet(
    name="market1501",
    splits=("train", "test", "query"),
    folder="market1501",
    origin="Zheng et al., Market-1501 (bounding_box_train, bounding_box_test and query)",
    read=_read_market,
)
