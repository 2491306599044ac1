"""Queries that are drawn by lot while a gallery is in use: with verdicts, a calibration set as good as a held-out one.

Feedback that people choose to give is about queries that they noticed: no sample of what is asked. So the lot decides
which queries are looked at, whatever their answers are; and calibration takes them in the order of drawing, up to the
first without a verdict, so that nobody can make the sample easier by leaving the hard ones for later.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from howsure.data.content import content_note, noted_content
from howsure.decide.drawn_query import Audited, DrawnQuery, Verdict
from howsure.decide.seen import Items
from howsure.embeddings import Embedding
from howsure.errors import GalleryError, GalleryLockedError, InputError
from howsure.index import Index, Item, LocalIndex, connect
from howsure.index.index import FINGERPRINT
from howsure.index.items import short
from howsure.index.local.store import FILE

if TYPE_CHECKING:
    from howsure.decide.ask import Finding

FOLDER = "audit"  # in the directory of a gallery
PATIENCE, PAUSE = 10.0, 0.02  # seconds to wait for another change in all, and between two tries


class Audit:
    """The drawn queries of one gallery, in a folder of its directory; every change is on disk when it returns."""

    def __init__(self, gallery: str, fingerprint: str | None):
        """Of this gallery, whose items this model made."""
        if "://" in gallery:
            expected, fix = (
                "a gallery in a directory",
                "export it and import it into one; ask, label and calibrate there",
            )
            raise GalleryError(f"audit of gallery {gallery}", expected=expected, got="one on a server", fix=fix)
        self._gallery, self._folder, self._fingerprint = gallery, Path(gallery) / FOLDER, fingerprint

    def draw(
        self, asked: Items, findings: Sequence[Finding], *, rate: float, rng: np.random.Generator | None = None
    ) -> list[Finding]:
        """Each query with probability `rate`, whatever its answer; the findings, with the number of those drawn."""
        if not 0 < rate <= 1:
            raise InputError("audit", expected="a probability above 0, at most 1", got=str(rate))
        rows = np.flatnonzero((rng or np.random.default_rng()).random(len(asked)) < rate).tolist()
        noted = list(findings)
        if len(rows):
            notes = [_notes(asked, row, findings[row]) | {"drawn": _now(), "rate": rate} for row in rows]
            with self._changing(create=True) as index:
                first = 1 + max(map(int, index.ids()), default=0)
                ids = [str(first + place) for place in range(len(rows))]
                index.add(ids, asked.embedding[rows].to("cpu", torch.float64), metadata=notes)
            for row, name in zip(rows, ids, strict=True):
                noted[row] = replace(noted[row], audit=name)
        return noted

    def judge(self, verdicts: Mapping[str, Verdict | None]) -> set[str]:
        """Keep verdicts by number, all or none, with None to take one back; those numbers that had one before."""
        with self._changing() as index:
            known = index.present([name for name in verdicts if name.isascii()])
            if missing := [name for name in verdicts if name not in known]:
                fix = f"howsure label {self._gallery} lists those that wait"
                raise InputError("audit", expected="the number of a drawn query", got=short(missing[0]), fix=fix)
            items = index.items(ids := list(verdicts))
            kinds = [None if verdict is None else verdict.kind for verdict in verdicts.values()]
            labels = [None if verdict is None else verdict.label for verdict in verdicts.values()]
            notes = [{**item.metadata, "verdict": kind} for item, kind in zip(items, kinds, strict=True)]
            if ids:
                index.add(ids, index.get(ids), labels=labels, metadata=notes)
        return {item.id for item in items if item.metadata.get("verdict")}

    def queries(self) -> list[DrawnQuery]:
        """All that were drawn, in order; those whose verdict is None wait for one."""
        if not self._exists:
            return []
        with LocalIndex.open(self._folder) as index:
            return [DrawnQuery.from_item(item) for item in _in_order(index)]

    def held_out(self) -> Items:
        """The queries to calibrate on: in the order of drawing, up to the first without a verdict."""
        self._require()
        with LocalIndex.open(self._folder) as index:
            items = _in_order(index)
            queries = [DrawnQuery.from_item(item) for item in items]
            used = next((place for place, one in enumerate(queries) if one.verdict is None), len(queries))
            if not used:
                got, fix = "none", f"howsure label {self._gallery} lists those that wait, the first first"
                raise GalleryError("audit", expected="a verdict on the first query that was drawn", got=got, fix=fix)
            embedding = index.get([item.id for item in items[:used]])
        waiting = sum(one.verdict is not None for one in queries[used:])
        return _held_out(items[:used], embedding, Audited.of(queries[:used], drawn=len(queries), waiting=waiting))

    @property
    def _exists(self) -> bool:
        return (self._folder / FILE).is_file()

    def _require(self) -> None:
        if not self._exists:
            fix = f"howsure search {self._gallery} IMAGE... --audit 0.05 draws some"
            raise GalleryError(f"audit of gallery {self._gallery}", expected="drawn queries", got="none yet", fix=fix)

    def _changing(self, *, create: bool = False) -> Index:
        """Opened for one change alone, so that others have their turn."""
        if not create:
            self._require()
        until = time.monotonic() + PATIENCE
        while True:
            try:
                index = connect(self._folder, write=True, create=create, about={FINGERPRINT: self._fingerprint})
                break
            except GalleryLockedError:  # by a change that is as short as this one
                if time.monotonic() > until:
                    raise
                time.sleep(PAUSE)
        try:
            index.require_model(self._fingerprint)
        except BaseException:
            index.close()
            raise
        return index


def _notes(asked: Items, row: int, finding: Finding) -> dict[str, Any]:
    best = finding.matches[0] if finding.matches else None
    notes = {
        "name": asked.ids[row],
        "path": asked.paths[row],
        "answer": finding.answer.kind,
        "best": best and (best.label or best.id),
        "measures": None if asked.measures is None else asked.measures[row].tolist(),
    }
    return notes | (content_note(asked.content[row]) if asked.pictured[row] else {})


def _held_out(items: Sequence[Item], embedding: Embedding, record: Audited) -> Items:
    content = [noted_content(item.metadata) for item in items]
    measures = [item.metadata["measures"] for item in items]
    return Items(
        embedding,
        ids=tuple(item.id for item in items),
        labels=tuple(item.label for item in items),
        paths=tuple(item.metadata["path"] for item in items),
        content=np.array([one or 0 for one in content], np.int64),
        pictured=np.array([one is not None for one in content], bool),
        measures=None if None in measures else np.array(measures, float),
        audit=record,
    )


def _in_order(index: Index) -> list[Item]:
    """Of drawing: an item with a new verdict comes last in the index."""
    return sorted(index.items(index.ids()), key=lambda item: int(item.id))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
