"""A gallery: an index, the model that made its items, and the policy that answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from howsure import data
from howsure.data import ImageSet, Skipped
from howsure.data.content import UNKNOWN, content_note, without_content
from howsure.data.labels import checked_labels, checked_text, paths_as_ids
from howsure.decide import Answer, Audit, Certificate, Drift, DriftState, Finding, Policy, ask, calibrate, verify_pair
from howsure.decide.outcomes import Tally, verdicts_of
from howsure.decide.seen import Items, unseen
from howsure.embedder import Embedder, Encoded
from howsure.embeddings import Embedding
from howsure.errors import GalleryError, InputError, ModelError
from howsure.given import items_of, labelled_items, quality_of
from howsure.index import Index, Matches, connect
from howsure.index.index import FINGERPRINT
from howsure.match import Matcher, match_probability

__all__ = ["Added", "Gallery", "GalleryStatus"]

BLOCK = 1024  # pictures that become durable together
MODEL, POLICY = "model", "policy"  # keys of what an index keeps about itself, beside the fingerprint
OWN_MODEL = "model"  # the folder of a model that is kept in a gallery's directory


@dataclass(frozen=True)
class Added:
    """What became of the items that were given: new or changed, left alone because they are the same, unreadable."""

    added: int
    unchanged: int
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class GalleryStatus:
    """What a gallery holds, and whether its promise still covers it."""

    where: str
    items: int
    identities: int
    model: str | None  # fingerprint; None where vectors were added as they are
    certificate: Certificate | None  # None where it is not calibrated
    stale: tuple[str, ...]  # how the gallery differs from the one that the policy was made in
    drift: DriftState | None  # of the queries since opening; None where nothing can tell


class Gallery:
    """Pictures or vectors to search, with the model that reads them and the policy that answers.

    Where items are expected, give a folder, a table or a file of pictures, a data set's name, an `ImageSet`, a list of
    paths or PIL pictures, or an `Embedding`; where there is no model, also a float array or tensor (N, D).

    >>> from tempfile import mkdtemp
    >>> with Gallery.create(mkdtemp() + "/gallery") as gallery:
    ...     _ = gallery.add(np.eye(3), ids=["a", "b", "c"], labels=[0, 0, 1])
    ...     finding, = gallery.ask(np.array([[0.9, 0.1, 0.0]]))
    >>> finding.answer.kind, finding.matches[0].id, finding.matches[0].label
    ('not_sure', 'a', '0')
    """

    def __init__(self, where: str, index: Index, *, model: Path | None = None):
        """Use `create` or `open`."""
        self.where, self.index, self._model = where, index, model

    # Opening and closing.

    @classmethod
    def create(
        cls, where: str | Path, model: Embedder | str | Path | None = None, *, exist_ok: bool = False
    ) -> Gallery:
        """A new gallery at a path or a URL, open for writing; with `exist_ok`, also one that is there already.

        `model` is the directory of a model, which stays where it is, or an embedder, which is saved in the gallery's
        own directory. Without one, vectors are added as they are.
        """
        own = isinstance(model, Embedder)
        if own and "://" in str(where):
            what, fix = "model of a gallery on a server", "embedder.save(PATH), then give the path"
            raise InputError(what, expected="the directory of a saved model", got="an embedder", fix=fix)
        path = None if model is None or own else Path(str(model))
        embedder = model if isinstance(model, Embedder) else Embedder.load(path) if path else None
        about: dict[str, Any] = {}
        if embedder:
            about = {MODEL: OWN_MODEL if own else str(Path(str(path)).resolve()), FINGERPRINT: embedder.fingerprint}
        index = connect(where, create=True, about=about)
        try:
            if not exist_ok and (len(index) or index.about != about):
                fix = "Gallery.open(where, write=True)"
                raise GalleryError(f"gallery {where}", expected="none yet", got="a gallery", fix=fix)
            gallery = cls(str(where), index, model=path)
            index.require_model(embedder.fingerprint if embedder else None)
            if embedder:
                gallery.embedder = embedder
                if own:
                    embedder.save(Path(where) / OWN_MODEL)
                if index.about != (kept := index.about | about):
                    index.describe(kept)
        except BaseException:
            index.close()
            raise
        return gallery

    @classmethod
    def open(cls, where: str | Path, *, model: str | Path | None = None, write: bool = False) -> Self:
        """An existing gallery; `model` says where its model is, if it has moved."""
        return cls(str(where), connect(where, write=write), model=None if model is None else Path(model))

    def close(self) -> None:
        """Close the index."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.index.__exit__(*error)

    def __len__(self) -> int:
        return len(self.index)

    # The model and the policy.

    @property
    def model(self) -> Path | None:
        """The directory of the model; None where vectors were added as they are."""
        named = self.index.about.get(MODEL)
        if self._model or not named:
            return self._model
        return Path(self.where) / OWN_MODEL if named == OWN_MODEL else Path(named)

    @cached_property
    def embedder(self) -> Embedder:
        """The model that made the items, loaded when it is first needed."""
        if (path := self.model) is None:
            got, fix = "items that only a model can read", "create the gallery with a model"
            raise GalleryError(f"gallery {self.where}", expected="vectors or an Embedding", got=got, fix=fix)
        try:
            embedder = Embedder.load(path)
        except ModelError as error:
            fix = "say where it is: --model MODEL"
            raise ModelError(f"the model of gallery {self.where}: {error}", fix=fix) from error
        self.index.require_model(embedder.fingerprint)
        return embedder

    @cached_property
    def policy(self) -> Policy | None:
        """What answers: the gallery's own policy, else the one that lies with its model; None where there is none."""
        if kept := self.index.about.get(POLICY):
            return Policy.from_json(kept, f"the policy of gallery {self.where}")
        made_for = self.index.about.get(FINGERPRINT) or ""
        own = None if self._on_server else Policy.load(self.where, model=made_for)
        if own or self.model is None:
            return own
        if self._model is not None:
            self.embedder  # noqa: B018 - a model that was named by hand is checked before its policy is used
        return Policy.load(self.model, model=made_for)

    @property
    def _on_server(self) -> bool:
        return "://" in self.where

    @cached_property
    def drift(self) -> Drift | None:
        """What watches the queries; None where nothing is calibrated."""
        return Drift(self.policy.reference) if self.policy else None

    @property
    def matcher(self) -> Matcher | None:
        """What tells P(same) of a pair in a gallery of this size; None if nothing was fitted yet."""
        if policy := self.policy:
            return policy.matcher_at(policy.identities_in(self.index))
        return self.embedder.matcher if self.model else None

    @property
    def audit(self) -> Audit:
        """The queries that `ask(..., audit=rate)` drew by lot; with verdicts, `audit.held_out()` is to calibrate on."""
        return Audit(self.where, self.index.about.get(FINGERPRINT))

    # Changing.

    def add(
        self,
        items: Any,
        *,
        ids: Iterable[Any] | None = None,
        labels: Iterable[Any] | None = None,
        metadata: Sequence[dict[str, Any]] | None = None,
        strict: bool = False,
        encode: Callable[[ImageSet], Iterator[Encoded]] | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Added:
        """Add items, in place of those with the same ids; durable on return.

        Pictures of a folder or a set bring their ids and labels; those that were added before and have not changed are
        left alone, so that a run which was stopped goes on. Unreadable ones are skipped, or with `strict` an error.
        `encode` replaces the way in which a set becomes embeddings, a block at a time.
        """
        if isinstance(images := data.loaded(items), ImageSet):
            if ids is not None or metadata is not None:
                raise InputError("ids and metadata", expected="none: pictures of a set bring theirs", got="some")
            named = None if labels is None else checked_labels(labels, len(images))
            return self._add_images(images, named, strict=strict, encode=encode, progress=progress)
        embedding = self.embed(items)
        names = paths_as_ids(items) if ids is None else ids
        if names is None:
            raise InputError("ids", expected=f"one for each of {len(embedding)} items", got="none", fix="give ids=...")
        texts = None if labels is None else checked_labels(labels, len(embedding))
        self.index.add([checked_text(name, "id") for name in names], embedding, labels=texts, metadata=metadata)
        progress(len(embedding))
        return Added(len(embedding), 0, ())

    def _add_images(
        self,
        images: ImageSet,
        labels: list[str | None] | None,
        *,
        strict: bool,
        encode: Callable[[ImageSet], Iterator[Encoded]] | None,
        progress: Callable[[int], None],
    ) -> Added:
        if labels is not None:
            images = replace(images, labels=tuple(labels))
        stamps = {name: images.stamp(row) for row, name in enumerate(images.ids)}
        label_of = dict(zip(images.ids, images.labels, strict=True))
        known = self.index.items(sorted(self.index.present(images.ids)))
        same = {i.id for i in known if (without_content(i.metadata), i.label) == (stamps[i.id], label_of[i.id])}
        rows = [row for row, name in enumerate(images.ids) if name not in same]
        parts = encode or (lambda todo: self.embedder.encode_stream(todo, batch=BLOCK, strict=strict))
        skipped: list[Skipped] = []
        added = 0
        for part in parts(images.subset(rows)):
            notes = [stamps[n] | content_note(c) for n, c in zip(part.images.ids, part.content, strict=True)]
            self.index.add(part.images.ids, part.embedding, labels=part.images.labels, metadata=notes)
            added += len(notes)
            skipped.extend(part.skipped)
            progress(added + len(skipped))
        if skipped and not added and not same:
            raise data.none_readable(images, skipped)
        return Added(added, len(same), tuple(skipped))

    def remove(self, ids: Iterable[Any]) -> int:
        """Remove items; how many. An unknown id is an error."""
        return self.index.remove(ids if isinstance(ids, str) else [checked_text(name, "id") for name in ids])

    def calibrate(
        self,
        items: Any,
        labels: Iterable[Any] | None = None,
        *,
        max_error: float = 0.01,
        confidence: float = 0.95,
        max_false_unknown: float = 0.01,
        max_false_match: float | None = None,
        unknown: Any = None,
        unknown_rate: float = 0.2,
        ids: Iterable[Any] | None = None,
        seed: int = 0,
        allow_seen: bool = False,
    ) -> Policy:
        """Find, and keep, the policy that answers most at these error rates; see `howsure.decide.calibrate`.

        `items` are held-out queries, or `audit.held_out()`, with their `labels` where they do not bring them; one that
        the gallery lacks, or None, is an unknown identity. `unknown` are more queries of that sort; `ids` name all of
        them. A few that the gallery holds, or training showed, are left out; many are an error, unless `allow_seen`:
        `seen` of the certificate names them. If no policy can promise it, that is an error; an earlier policy stays.
        """
        given = data.loaded(items)
        held = labelled_items(given, labels, self._reader)
        held = held if unknown is None else held.and_unknown(self._items(unknown, measured=True))
        held = held if ids is None else replace(held, ids=tuple(checked_text(name, "id") for name in ids))
        changes, drawn = self.index.changes, held.audit
        stored = Items.from_index(self.index)
        trained = self.embedder.seen if held.pictured.any() else UNKNOWN
        held, seen = unseen(held, stored, trained, allow=allow_seen)
        policy = calibrate(
            held.embedding,
            held.labels,
            stored.embedding,
            stored.identities,
            max_error=max_error,
            confidence=confidence,
            max_false_unknown=max_false_unknown,
            max_false_match=max_false_match,
            unknown_rate=unknown_rate,
            seed=seed,
            model=self.index.about.get(FINGERPRINT) or "",
            ids=held.ids,
            quality=None if held.measures is None else quality_of(given, side=self.embedder.spec.side, seed=seed),
            measures=held.measures,
        )
        policy = replace(policy, certificate=replace(policy.certificate, changes=changes, seen=seen, audit=drawn))
        if self._on_server:
            with connect(self.where, write=True) as index:
                index.describe(self.index.about | {POLICY: policy.to_json()})
        else:
            policy.save(self.where)
        self.use(policy)
        return policy

    def use(self, policy: Policy) -> None:
        """Answer by this policy, until the gallery is opened again."""
        self.policy = policy
        self.drift = Drift(policy.reference)

    # Asking.

    def ask(
        self,
        items: Any,
        k: int = 5,
        *,
        sets: bool | float = False,
        watch: bool = True,
        measures: np.ndarray | None = None,
        audit: float = 0.0,
    ) -> list[Finding]:
        """One finding a query: match, unknown or not sure, with the k best matches, and with `sets` a prediction set.

        Answers are corrected for a gallery that has grown since calibration. With `watch`, these queries count when
        `status` says whether queries are still like those of calibration. Of pictures the quality is looked at; where
        you give embeddings of pictures, their `measures` (Q, M) may come along, see `howsure.data.measures`. With the
        probability `audit` each query is drawn for the gallery's `audit`, and waits for a verdict.
        """
        policy = self.policy
        asked = self._items(items, measured=policy is not None and policy.quality is not None)
        how: dict[str, Any] = {"matcher": None if policy else self.matcher, "k": k, "sets": sets}
        measures = asked.measures if measures is None else measures
        findings = ask(self.index, asked.embedding, policy=policy, measures=measures, **how)
        if watch:
            self.watch(findings)
        return self.audit.draw(asked, findings, rate=audit) if audit else findings

    def watch(self, findings: Sequence[Finding]) -> bool | None:
        """Count queries, and say whether they have drifted from those of calibration; None where nothing can tell."""
        if not (drift := self.drift) or not drift.watches:
            return None
        # By lot, because folders come in order: all pictures of one class are not yet a change.
        for row in np.random.default_rng(0).permutation(len(findings)):
            drift.see(findings[row].uncertainty, findings[row].novelty)
        return drift.state.drifted

    def search(self, items: Any, k: int = 5, **how: Any) -> Matches:
        """The k best items of each query, without an answer; `how` is passed on to `Index.search`."""
        usual = {"matcher": self.matcher, "by": self.policy.choice.by if self.policy else "distance"}
        return self.index.search(self.embed(items), k, **(usual | how))

    def verify(self, first: Any, second: Any) -> list[Answer]:
        """Whether pairs show the same, one answer a pair, as if half of all pairs did."""
        matcher = self.policy.matcher if self.policy else self.matcher
        if matcher is None:
            raise GalleryError(f"gallery {self.where} cannot tell probabilities yet", fix="run howsure calibrate")
        a, b = (self.policy.ranked(x) if self.policy else x for x in map(self.embed, (first, second)))
        if len(a) != len(b):
            raise InputError("pairs", expected="as many on both sides", got=f"{len(a)} and {len(b)}")
        return [verify_pair(float(p), self.policy) for p in match_probability(matcher.at(0.5), a, b, paired=True)]

    def evaluate(self, items: Any, labels: Iterable[Any] | None = None) -> dict[str, Tally]:
        """What the policy makes of labelled queries: answered and wrong, among known and among unknown identities."""
        asked = labelled_items(items, labels, self._reader)
        findings = self.ask(asked.embedding, watch=False, measures=asked.measures)
        counts = zip(asked.labels, self.index.references(asked.labels), strict=True)
        unknown = np.array([label is None or not count for label, count in counts])
        verdicts = verdicts_of(findings, asked.labels, unknown=unknown)
        return {"known": verdicts.tally(~unknown), "unknown": verdicts.tally(unknown)}

    def status(self) -> GalleryStatus:
        """What is in the gallery, and whether its policy was made for it as it is."""
        policy, drift = self.policy, self.drift
        return GalleryStatus(
            self.where,
            len(self.index),
            self.index.count_identities(),
            self.index.about.get(FINGERPRINT),
            policy.certificate if policy else None,
            policy.stale_in(self.index) if policy else (),
            drift.state if drift and drift.watches else None,
        )

    # From what a person gives to embeddings.

    def embed(self, items: Any) -> Embedding:
        """Items as embeddings of this gallery's model, or as they are."""
        return self._items(items).embedding

    def _items(self, given: Any, *, measured: bool = False) -> Items:
        return items_of(given, self._reader, measured=measured)

    @property
    def _reader(self) -> Callable[[], Embedder] | None:
        return None if self.model is None else lambda: self.embedder
