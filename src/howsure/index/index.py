"""What an index of embeddings does, wherever its items are."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
import torch

from howsure.embeddings import Embedding
from howsure.errors import GalleryError, InputError
from howsure.index.items import Item, checked_ids, checked_items, checked_json
from howsure.index.layout import Layout
from howsure.index.matches import Matches
from howsure.match import Matcher
from howsure.prior import Prior

FINGERPRINT = "fingerprint"  # of the model that made the items, in the notes; none where vectors came without a model
SAMPLE = 2_000  # items by which identities are counted

By = Literal["distance", "likelihood", "mean"]


class Index(ABC):
    """Items with an id, an embedding, a label and metadata: in a directory (`LocalIndex`), on a server (`RemoteIndex`).

    One index may be shared by threads; their calls take turns. `howsure.index.connect` opens one by path or URL.
    """

    recovered: str | None = None
    """What opening had to repair; None if nothing."""

    def __init__(self, url: str, *, write: bool):
        """Use `create` or `open` of a subclass, or `connect`."""
        self.url = url
        self._write = write
        self._turn = threading.RLock()
        self._counted: tuple[int, int] | None = None  # the state, and the identities counted in it

    @abstractmethod
    def close(self) -> None:
        """Let the next writer in. Durability does not depend on it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Changing.

    def describe(self, about: Mapping[str, Any]) -> None:
        """Replace the notes."""
        notes = checked_json(about, "about")
        with self._turn:
            self._require_write()
            self._describe(notes)

    @abstractmethod
    def set_prior(self, prior: Prior) -> None:
        """Search by likelihood under this prior from here on. Moments stay as they are; keys are made anew."""

    def add(
        self,
        ids: Sequence[str],
        embedding: Embedding,
        *,
        labels: Sequence[str | None] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Add items, in place of those with the same ids: all of them, durably, or none.

        A replaced item counts as new: it comes last among items at the same distance.
        """
        items = checked_items(ids, len(embedding), labels=labels, metadata=metadata)
        with self._turn:
            self._require_write()
            if items:
                embedding = embedding.detach().checked()
                self._add(items, embedding, Layout.from_embedding(embedding))

    def remove(self, ids: Sequence[str]) -> int:
        """Remove items, all or none; how many. An unknown id is an error."""
        gone = checked_ids(ids)
        with self._turn:
            self._require_write()
            if gone:
                self._remove(gone)
            return len(gone)

    @abstractmethod
    def compact(self) -> None:
        """Make the index quick to open and to search."""

    # Reading.

    @property
    @abstractmethod
    def about(self) -> dict[str, Any]:
        """The JSON notes kept with the items."""

    @property
    @abstractmethod
    def changes(self) -> int:
        """A number that grows whenever items come or go."""

    @property
    @abstractmethod
    def prior(self) -> Prior | None:
        """The prior over identities that a search by likelihood uses."""

    def search(
        self,
        query: Embedding,
        k: int = 5,
        *,
        matcher: Matcher | None = None,
        by: By = "distance",
        approximate: bool | None = None,
    ) -> Matches:
        """The k best items of each query; with a matcher, P(same) of each.

        By `distance`, the nearest by `rms_distance`: in a directory proved exact, on a server among its candidates. By
        `mean`, the nearest by the distance between point estimates, as if no item were uncertain: in a directory proved
        exact, on a server among the nearest by `rms_distance`. A matcher is then one that was fitted on such distances.

        By `likelihood`, the largest `log_likelihood_ratio` under the prior; a matcher is then one that was fitted on
        its negative. In a directory that is proved exact where every embedding has one variance, and the prior too.
        Elsewhere it is found among the items with the nearest shrunk means. From half a million items on, if it finds
        enough, or with `approximate=True`, an inverted file (IVF) names the candidates; with `approximate=False` the
        answer is always exact. `Matches` says what it was, and what share it is likely to find.
        """
        if k < 1:
            raise InputError("k", expected="1 or more", got=str(k))
        if by not in get_args(By):
            raise InputError("by", expected=" or ".join(get_args(By)), got=repr(by))
        if approximate and by != "likelihood":
            raise InputError(
                "approximate", expected=f"None or False by {by}", got="True", fix='search by="likelihood"; it scales'
            )
        query = query.map(lambda tensor: tensor.detach().to("cpu", torch.float64))
        with self._turn:
            return self._search(query, k, matcher=matcher, by=by, approximate=approximate)

    @abstractmethod
    def __len__(self) -> int: ...

    def __contains__(self, identity: object) -> bool:
        return isinstance(identity, str) and bool(self.present([identity]))

    @abstractmethod
    def ids(self) -> list[str]:
        """All ids, in the order in which they were added."""

    @abstractmethod
    def sample(self, count: int) -> list[str]:
        """So many ids by lot, or all if there are fewer; the same ones each time."""

    @abstractmethod
    def present(self, ids: Sequence[str]) -> set[str]:
        """Those of these ids that are items here."""

    @abstractmethod
    def items(self, ids: Sequence[str]) -> list[Item]:
        """Id, label and metadata of these items."""

    @abstractmethod
    def labels(self, ids: Sequence[str]) -> list[str | None]:
        """The labels of these items."""

    @abstractmethod
    def references(self, labels: Sequence[str | None]) -> list[int]:
        """How many items carry each of these labels; an item without one stands alone."""

    def count_identities(self) -> int:
        """How many identities there are; past some thousand items by a sample of them, each counted as 1/references.

        Counted once for each state of the items.
        """
        with self._turn:
            now = self.changes
            if self._counted is None or self._counted[0] != now:
                some = self.sample(SAMPLE)
                references = self.references(self.labels(some)) if some else [1]
                self._counted = now, round(len(self) * float(np.mean(1 / np.array(references))))
            return self._counted[1]

    @abstractmethod
    def get(self, ids: Sequence[str]) -> Embedding:
        """The embedding of these items, bit for bit as it was added."""

    @abstractmethod
    def embedding(self) -> tuple[list[str], Embedding]:
        """All ids and their embedding, in the order in which they were added."""

    # What each index does its own way; called in turn, with arguments that were checked.

    @abstractmethod
    def _describe(self, about: dict[str, Any]) -> None: ...

    @abstractmethod
    def _add(self, items: list[Item], embedding: Embedding, layout: Layout) -> None: ...

    @abstractmethod
    def _remove(self, ids: list[str]) -> None: ...

    @abstractmethod
    def _search(
        self, query: Embedding, k: int, *, matcher: Matcher | None, by: By, approximate: bool | None
    ) -> Matches: ...

    def require_model(self, fingerprint: str | None) -> None:
        """Refuse items of any but the model that made those here; None stands for vectors as they are."""
        made_with = self.about.get(FINGERPRINT)
        if fingerprint != made_with:
            raise GalleryError(
                f"gallery {self.url}",
                expected=f"the model that made it, {made_with}"
                if made_with
                else "vectors as they are, without a model",
                got=fingerprint or "no model",
                fix="use that model, or make a new gallery",
            )

    def _require_write(self) -> None:
        if not self._write:
            raise GalleryError(
                f"gallery {self.url}",
                expected="an index open for writing",
                got="one for reading, or closed",
                fix="open it with write=True",
            )

    def _require_items(self, layout: Layout | None) -> Layout:
        if layout is None:
            raise GalleryError(f"gallery {self.url}", expected="items", got="an empty gallery", fix="add some first")
        return layout
