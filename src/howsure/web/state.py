"""The gallery that is served, and what is done with it. All of it may block: call it in a worker."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from howsure.embeddings import Embedding, restore
from howsure.errors import DataError, GalleryError, InputError
from howsure.files import write_whole
from howsure.gallery import Gallery
from howsure.index import Item
from howsure.index.ranking.keys import item_keys
from howsure.web.feedback import FeedbackLog
from howsure.web.gallery_review import MOST, Neighbourhood, codes_of, review
from howsure.web.pictures import KEPT, Picture, Recent, png
from howsure.web.problems import RefusedError, no_item
from howsure.web.schemas import RocReply
from howsure.web.settings import Settings, folder_of
from howsure.web.unknown_roc import unknown_roc
from howsure.web.view import View

__all__ = ["State", "open_state"]

ADDED = "pictures"  # the folder of those that were uploaded
REMEMBERED = 64  # removals that can be undone


@dataclass(eq=False)
class State:
    """One gallery being served. It is read through one connection, and written through another as long as it takes."""

    url: str
    name: str
    gallery: Gallery
    folder: Path

    def __post_init__(self) -> None:
        self.feedback, self.recent = FeedbackLog(self.folder), Recent()
        self.index = self.gallery.index
        self.audit = None if "://" in self.url else self.gallery.audit  # None where it cannot be kept
        self.closing = threading.Event()  # ends comparisons that are under way
        self._view: View | None = None
        self._turn = threading.RLock()
        self._removed: dict[str, tuple[Item, Embedding]] = {}  # by token, oldest first; one worker touches it

    def view(self) -> View:
        """The gallery as it is now."""
        with self._turn:
            changes = self.index.changes
            if self._view is None or self._view.changes != changes:
                self._view = self._read(changes)
            return self._view

    def last_view(self) -> View:
        """The gallery as it was last read: enough to rank an uncertainty."""
        with self._turn:
            return self._view or self.view()

    def _read(self, changes: int) -> View:
        if len(self.index) == 0:
            return View(changes, [], [], None, np.empty(0))
        ids, embedding = self.index.embedding()
        return View(changes, ids, self.index.labels(ids), embedding, embedding.uncertainty.double().numpy())

    def neighbours(self, view: View) -> Neighbourhood:
        """The nearest other items of each item; the first call for a view compares all with all."""
        if view.neighbourhood is None:
            count = len(view.ids)
            if view.embedding is None or not 2 <= count <= MOST:
                raise GalleryError("neighbours", expected=f"a gallery of 2 to {MOST:,} items", got=f"{count:,}")
            view.neighbourhood = review(view.embedding, codes_of(view.labels)[0], go_on=self._go_on)
        return view.neighbourhood

    def unknown_roc(self, view: View) -> RocReply | str:
        """How well unknown identities would be noticed, or why it cannot be computed; the first call takes long."""
        policy = self.gallery.policy
        if policy is None:
            return "the model has no policy yet: run howsure calibrate"
        if view.embedding is None or len(view.ids) > MOST:
            return f"it takes 1 to {MOST:,} items"
        if view.unknown_roc is None:
            view.unknown_roc = unknown_roc(view.embedding, codes_of(view.labels)[0], policy, go_on=self._go_on)
        return view.unknown_roc

    def _go_on(self) -> None:
        if self.closing.is_set():
            raise RefusedError(503, "comparison", expected="a server that runs", got="one that is being closed")

    def require(self, ids: Sequence[str]) -> None:
        """404 for an item that is not there."""
        present = self.index.present(ids)
        for name in ids:
            if name not in present:
                raise no_item(name)

    def embedding_of(self, ids: Sequence[str]) -> Embedding:
        """The embeddings of items; 404 for one that is not there."""
        self.require(ids)
        return self.index.get(ids)

    def embedding_from(self, fields: dict[str, list[list[float]]]) -> Embedding:
        """Embeddings of the gallery's family from their fields."""
        items = self.last_view().embedding or self.view().embedding
        if items is None:
            raise GalleryError(f"gallery {self.name}", expected="items, to know the family", got="none")
        if len(items.by_draw()) > 1:
            raise InputError("fields", expected="a family without draws", got=items.family, fix="ask by ids")
        try:
            arrays = {name: np.asarray(rows, np.float64) for name, rows in fields.items()}
            axes = {name: tensor.ndim for name, tensor in items.tensors().items()}
            shaped = {name: a[:, 0] if axes.get(name) == 1 and a.ndim == 2 else a for name, a in arrays.items()}
        except (ValueError, IndexError) as error:
            raise InputError("fields", expected="rows of one length", got=str(error)[:100]) from error
        query = restore(items.family, shaped).checked()
        if query.dim != items.dim:
            raise InputError("fields", expected=f"rows of {items.dim} numbers", got=f"rows of {query.dim}")
        item_keys(query)  # refuses values that are too large to search by
        return query

    def add(self, pictures: Sequence[Picture], label: str | None) -> list[str]:
        """New items, durably; their ids."""
        embedding, ids, notes = self.gallery.embed([picture.image for picture in pictures]), [], []
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
        with self._writable() as gallery:
            gallery.add(embedding, ids=ids, labels=[label] * len(ids), metadata=notes)
        return ids

    def remove(self, name: str) -> str:
        """Remove an item; the token that brings it back."""
        embedding, (item,) = self.embedding_of([name]), self.index.items([name])
        with self._writable() as gallery:
            gallery.remove([name])
        token = secrets.token_urlsafe(16)
        self._removed[token] = item, embedding
        if len(self._removed) > REMEMBERED:
            self._forget(next(iter(self._removed)))
        return token

    def undo(self, token: str) -> str:
        """Bring an item back; its id."""
        if token not in self._removed:
            raise RefusedError(404, "undo", expected="the token of a removal", got="one that is used, too old or wrong")
        item, embedding = self._removed[token]
        if item.id in self.index:
            raise RefusedError(409, f"item {item.id!r}", expected="none of this name", got="one that came after it")
        with self._writable() as gallery:
            gallery.add(embedding, ids=[item.id], labels=[item.label], metadata=[dict(item.metadata)])
        del self._removed[token]
        return item.id

    def _writable(self) -> Gallery:
        """Opened for one change alone, so that `howsure index` can have its turn."""
        return Gallery.open(self.url, write=True)

    def _forget(self, token: str) -> None:
        """A removed item can no longer come back: delete the picture that was uploaded for it."""
        item, _ = self._removed.pop(token)
        path = Path(str(item.metadata.get("path", "")))
        if path.parent == (self.folder / ADDED).absolute() and item.id not in self.index:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Forget removals and close the gallery."""
        for token in list(self._removed):
            self._forget(token)
        self.gallery.close()


def open_state(where: str | Path, settings: Settings) -> State:
    """Open a gallery and the model that made it."""
    url = str(where)
    gallery = Gallery.open(url, model=settings.model)
    try:
        gallery.embedder.to("cuda" if torch.cuda.is_available() else "cpu")
        folder = folder_of(url)
        if settings.audit:
            gallery.audit  # noqa: B018 - refused now, where it cannot be kept
        return State(url, folder.stem, gallery, settings.folder or folder)
    except BaseException:
        gallery.close()
        raise
