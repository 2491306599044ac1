"""Model, gallery and policy, opened once, and what is done with them. All of it may block: call it in a worker."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from howsure.decide import Finding, Policy
from howsure.embeddings import Embedding, restore
from howsure.errors import DataError, InputError
from howsure.files import write_whole
from howsure.gallery import Gallery
from howsure.index import Index, connect
from howsure.web.comparisons import Comparisons
from howsure.web.feedback import FeedbackLog
from howsure.web.pictures import KEPT, Picture, Recent, Sources, png
from howsure.web.problems import RefusedError
from howsure.web.removals import Removal, Removals
from howsure.web.settings import Settings
from howsure.web.versioned_cache import VersionedCache
from howsure.web.view import View

__all__ = ["State", "open_state"]

ADDED = "pictures"  # the folder of those that came through the window


@dataclass(eq=False)
class State:
    """One gallery being served. It is read through one connection, and written through another as long as it takes."""

    url: str
    name: str
    settings: Settings
    gallery: Gallery
    folder: Path
    comparisons: Comparisons = field(default_factory=Comparisons)

    def __post_init__(self) -> None:
        self.feedback, self.recent, self.sources = FeedbackLog(self.folder), Recent(), Sources()
        self.removals = Removals(self._forget)
        self.index, self.embedder = self.gallery.index, self.gallery.embedder
        self.maps = VersionedCache()
        self._view: View | None = None
        self._turn = threading.RLock()

    def view(self) -> View:
        """The gallery as it is now."""
        with self._turn:
            changes = self.index.changes
            if self._view is None or self._view.changes != changes:
                self._view = self._look(changes)
            return self._view

    def last_view(self) -> View:
        """The gallery as it was when somebody last looked: enough to rank an uncertainty, and nothing is read."""
        with self._turn:
            return self._view or self.view()

    def _look(self, changes: int) -> View:
        if len(self.index) == 0:
            return View(changes, [], [], None, np.empty(0))
        ids, belief = self.index.embedding()
        uncertainty = belief.uncertainty.double().numpy()
        return View(changes, ids, self.index.labels(ids), belief, uncertainty)

    def encode(self, pictures: Sequence[Picture]) -> Embedding:
        """Beliefs about pictures."""
        return self.embedder.encode([picture.image for picture in pictures])

    def encode_split(self, pictures: Sequence[Picture]) -> tuple[Embedding, Tensor | None]:
        """The same, and what of each uncertainty is about the model."""
        return self.embedder.encode_split([picture.image for picture in pictures])

    @property
    def policy(self) -> Policy | None:
        """What answers; None where nothing is calibrated yet."""
        return self.gallery.policy

    def ask(self, query: Embedding, k: int) -> list[Finding]:
        """The same answers as `howsure search` gives."""
        return self.gallery.ask(query, k, watch=False)

    def watch(self, findings: Sequence[Finding]) -> bool | None:
        """Count queries, and say whether they have drifted; None where nothing can tell."""
        with self._turn:
            return self.gallery.watch(findings)

    def known(self, ids: Sequence[str]) -> Embedding:
        """The beliefs of items; 404 for one that is not there."""
        present = self.index.present(ids)
        for name in ids:
            if name not in present:
                raise RefusedError(404, f"item {name[:60]!r}", expected="an item of the gallery", got="none")
        return self.index.get(ids)

    def given(self, fields: dict[str, list[list[float]]]) -> Embedding:
        """Beliefs of the gallery's family from their fields."""
        belief = self.index.get(self.index.sample(1))
        if len(belief.by_draw()) > 1:
            raise InputError("fields", expected="a family without draws", got=belief.family, fix="ask by ids")
        try:
            arrays = {name: np.asarray(rows, np.float64) for name, rows in fields.items()}
            trailing = {name: tensor.ndim for name, tensor in belief.tensors().items()}
            shaped = {name: a[:, 0] if trailing.get(name) == 1 and a.ndim == 2 else a for name, a in arrays.items()}
        except (ValueError, IndexError) as error:
            raise InputError("fields", expected="rows of one length", got=str(error)[:100]) from error
        query = restore(belief.family, shaped).checked()
        if query.dim != belief.dim:
            raise InputError("fields", expected=f"rows of {belief.dim} numbers", got=f"rows of {query.dim}")
        return query

    def add(self, pictures: Sequence[Picture], label: str | None) -> list[str]:
        """New items, durably; their ids."""
        belief, ids, notes = self.encode(pictures), [], []
        folder = self.folder / ADDED
        folder.mkdir(parents=True, exist_ok=True)
        for picture in pictures:
            content = png(picture.image, KEPT)
            file = folder / f"{hashlib.sha256(content).hexdigest()[:32]}.png"
            if not file.exists():
                write_whole(file, content)
            stat = file.stat()
            ids.append(f"added/{file.name}")
            notes.append({"path": str(file.absolute()), "bytes": stat.st_size, "modified": stat.st_mtime_ns})
        if len(set(ids)) < len(ids):
            raise DataError("pictures", expected="each once", got="the same picture twice")
        self._write(lambda index: index.add(ids, belief, labels=[label] * len(ids), metadata=notes))
        return ids

    def remove(self, name: str) -> str:
        """Take an item out; the token that brings it back."""
        belief = self.known([name])
        removal = Removal(self.index.items([name])[0], belief)
        self._write(lambda index: index.remove([name]))
        return self.removals.keep(removal)

    def undo(self, token: str) -> str:
        """Bring an item back; its id."""
        removal = self.removals.get(token)
        if removal is None:
            raise RefusedError(404, "undo", expected="the token of a removal", got="one that is used, too old or wrong")
        item = removal.item
        if item.id in self.index:
            raise RefusedError(409, f"item {item.id!r}", expected="none of this name", got="one that came after it")
        self._write(lambda index: index.add([item.id], removal.belief, labels=[item.label], metadata=[item.metadata]))
        self.removals.drop(token)
        return item.id

    def _write(self, change: Callable[[Index], object]) -> None:
        # Opened for this change alone, so that `howsure index` can have its turn.
        with connect(self.url, write=True) as index:
            change(index)

    def _forget(self, removal: Removal) -> None:
        path = Path(str(removal.item.metadata.get("path", "")))
        if path.parent == (self.folder / ADDED).absolute() and removal.item.id not in self.index:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of everything."""
        self.removals.close()
        self.gallery.close()


def open_state(gallery: str | Path, settings: Settings) -> State:
    """Open a gallery and the model that made it."""
    url = str(gallery)
    opened = Gallery.open(url, model=settings.model)
    try:
        opened.embedder.to("cuda" if torch.cuda.is_available() else "cpu")
        # Beside a gallery on disk; for one on a server, here.
        place = Path(url.partition("?")[0].rpartition("/")[2]) if "://" in url else Path(url)
        place = place.resolve()
        folder = settings.folder or place.with_name(f"{place.name}.window")
        return State(url, place.name, settings, opened, folder)
    except BaseException:
        opened.close()
        raise
