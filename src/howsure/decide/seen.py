"""Were held-out items seen before? A promise that was calibrated on items of the gallery, or of training, is void."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from howsure.data import ImageSet
from howsure.data.content import SeenContent, content_hashes, noted_content
from howsure.decide.near_duplicates import nearest
from howsure.embeddings import Embedding, cat
from howsure.errors import CalibrationError, InputError
from howsure.index import Index

if TYPE_CHECKING:
    from howsure.decide.drawn_query import Audited

LEFT_OUT = 0.01  # share of the held-out items that is left out where it was seen; more is refused
COPIES = 0.1  # share that may be near-duplicates of gallery items; more are likely copies, saved anew
NAMED = 5


@dataclass(frozen=True, eq=False)
class Items:
    """N items, with all by which one of them would be known again."""

    embedding: Embedding
    ids: tuple[str, ...]
    labels: tuple[str | None, ...]
    paths: tuple[str | None, ...]  # absolute
    content: np.ndarray  # (N,) int64
    pictured: np.ndarray  # (N,) bool: the content is known, for it is that of pixels
    measures: np.ndarray | None = None  # (N, M) of the quality of the pictures, where it was asked for
    audit: Audited | None = None  # how they were drawn, where that was by lot

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.embedding):
            raise InputError("ids", expected=f"one for each of {len(self.embedding)} items", got=str(len(self.ids)))

    @classmethod
    def from_pictures(
        cls, embedding: Embedding, images: ImageSet, content: np.ndarray, measures: np.ndarray | None = None
    ) -> Self:
        """The pictures of a set."""
        paths = tuple(None if path is None else str(path.absolute()) for path in images.paths)
        return cls(embedding, images.ids, images.labels, paths, content, np.ones(len(content), bool), measures)

    @classmethod
    def from_embedding(
        cls, embedding: Embedding, content: np.ndarray | None = None, measures: np.ndarray | None = None
    ) -> Self:
        """Items that bring neither names nor labels; content and measures are those of their pixels, where known."""
        count = len(embedding)
        ids, nothing, pictured = tuple(map(str, range(count))), (None,) * count, np.full(count, content is not None)
        content = np.zeros(count, np.int64) if content is None else content
        return cls(embedding, ids, nothing, nothing, content, pictured, measures)

    @classmethod
    def from_index(cls, index: Index) -> Self:
        """All items of a gallery."""
        ids, embedding = index.embedding()
        items = index.items(ids)
        noted = [noted_content(item.metadata) for item in items]
        content = np.array([content or 0 for content in noted], np.int64)
        pictured = np.array([content is not None for content in noted], bool)
        paths = tuple(item.metadata.get("path") for item in items)
        return cls(embedding, tuple(ids), tuple(item.label for item in items), paths, content, pictured)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def identities(self) -> list[str]:
        """The labels; an item without one is an identity of its own."""
        return [label or f"item {name}" for name, label in zip(self.ids, self.labels, strict=True)]

    def __getitem__(self, rows: Sequence[int] | np.ndarray) -> Self:
        ids = tuple(self.ids[row] for row in rows)
        labels, paths = (tuple(of[row] for row in rows) for of in (self.labels, self.paths))
        measures = None if self.measures is None else self.measures[rows]
        return type(self)(self.embedding[rows], ids, labels, paths, self.content[rows], self.pictured[rows], measures)

    def and_unknown(self, others: Items) -> Self:
        """These, and others of identities that no gallery holds."""
        if self.audit:
            expected, fix = "none beside audited queries, which bring theirs", "leave it out"
            raise InputError("unknown", expected=expected, got=str(len(others)), fix=fix)
        return type(self)(
            cat([self.embedding, others.embedding]),
            self.ids + others.ids,
            self.labels + (None,) * len(others),
            self.paths + others.paths,
            np.concatenate([self.content, others.content]),
            np.concatenate([self.pictured, others.pictured]),
            None
            if self.measures is None or others.measures is None
            else np.concatenate([self.measures, others.measures]),
        )


@dataclass(frozen=True)
class Named:
    """How many, and the first few by name."""

    count: int
    names: tuple[str, ...]

    @classmethod
    def first(cls, names: Iterable[str]) -> Self:
        """Of these names."""
        listed = tuple(names)
        return cls(len(listed), listed[:NAMED])

    def __str__(self) -> str:
        more = self.count - len(self.names)
        return ", ".join(self.names) + f" and {more} more" * (more > 0)


@dataclass(frozen=True)
class Seen:
    """What was known of the held-out items before calibration."""

    in_gallery: Named
    trained_on: Named
    repeated: Named  # copies of others among them
    near: Named  # near-duplicates of gallery items, each with its own
    left_out: int  # of calibration, since they were seen
    training_known: bool  # whether the model can tell all that it was trained on, and the items be compared with it

    @classmethod
    def from_json(cls, keys: Mapping[str, Any]) -> Self:
        """What `asdict` wrote."""
        named = ("in_gallery", "trained_on", "repeated", "near")
        lists = {key: Named(keys[key]["count"], tuple(keys[key]["names"])) for key in named}
        return cls(**{**keys, **lists})


def unseen(held: Items, gallery: Items, trained: SeenContent, *, allow: bool) -> tuple[Items, Seen]:
    """The items to calibrate on, and what was found of all; too many that were seen are a `CalibrationError`.

    Items were seen if their content is in the gallery, under whatever name and label, or their file is, or if the model
    was trained on it. Where the gallery does not know the content of an item, an equal point estimate tells. Up to 1 %
    of the items is left out: the others are still a sample of what was never seen. Near-duplicates are reported; more
    than a tenth are refused too. With `allow` all are kept.
    """
    near = nearest(held.embedding, held.labels, gallery.embedding, gallery.labels)
    compared = held.pictured & gallery.pictured[near.position]  # then the content decides, not the distance
    filed = {path for path in gallery.paths if path is not None}
    in_gallery = held.pictured & np.isin(held.content, gallery.content[gallery.pictured])
    in_gallery |= (near.equal & ~compared) | np.array([path in filed for path in held.paths], bool)
    trained_on = held.pictured & trained.holds(held.content)
    seen = in_gallery | trained_on
    vectors = content_hashes(held.embedding.point_estimate.detach().cpu().double())
    content = np.where(held.pictured, held.content, vectors)
    repeated = np.ones(len(held), bool)
    repeated[np.unique(content, return_index=True)[1]] = False

    def named(chosen: np.ndarray) -> Named:
        return Named.first(held.ids[row] for row in np.flatnonzero(chosen))

    pairs = [(row, near.position[row]) for row in np.flatnonzero(near.near_duplicate & ~in_gallery)]
    drop = np.zeros(len(held), bool) if allow else seen
    found = Seen(
        in_gallery=named(in_gallery),
        trained_on=named(trained_on),
        repeated=named(repeated),
        near=Named.first(f"{held.ids[row]} like {gallery.ids[item]}" for row, item in pairs),
        left_out=int(drop.sum()),
        training_known=trained.complete and bool(held.pictured.all()),
    )
    if found.left_out > LEFT_OUT * len(held):
        raise _refused(found, int(seen.sum()), len(held))
    if not allow and found.near.count > COPIES * len(held):
        raise CalibrationError(
            "held-out items",
            expected="what the gallery has not shown",
            got=f"{found.near.count} of {len(held)} nearer to a gallery item than different ones are: {found.near}",
            fix="hold out others; or allow_seen=True, --allow-seen, if queries will be as near in use",
        )
    return held[np.flatnonzero(~drop)] if drop.any() else held, found


def _refused(found: Seen, seen: int, count: int) -> CalibrationError:
    where = (("in the gallery", found.in_gallery), ("in training", found.trained_on))
    lists = "; ".join(f"{named.count} {place} ({named})" for place, named in where if named.count)
    return CalibrationError(
        "held-out items",
        expected="what neither the gallery nor the training of the model has shown",
        got=f"{seen} of {count} that were shown: {lists}",
        fix="hold out others; or allow_seen=True, --allow-seen, if you know why",
    )
