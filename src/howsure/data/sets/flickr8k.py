"""Flickr8k: the pictures of its lists. They have captions, not labels."""

from pathlib import Path

from howsure.data.images import FileImages
from howsure.data.sets.published import PublishedSet


def _read(folder: Path, splits: tuple[str, ...]) -> FileImages:
    lists = [(folder / f"Flickr_8k.{split}Images.txt").read_text(encoding="utf-8") for split in splits]
    names = [name for text in lists for name in text.split()]
    files = tuple(folder / "Images" / name for name in names)
    return FileImages("flickr8k", tuple(f"flickr8k/{name}" for name in names), (None,) * len(names), files)


FLICKR8K = PublishedSet(
    name="flickr8k",
    splits=("train", "dev", "test"),
    folder="flickr8k",
    origin="Hodosh, Young and Hockenmaier, University of Illinois (Images and the Flickr_8k.*Images.txt lists)",
    read=_read,
)
