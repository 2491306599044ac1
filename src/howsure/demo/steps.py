"""The steps of the demo, in the order in which a user takes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from howsure import data
from howsure.data import ImageSet
from howsure.decide import Finding, Policy, ask, calibrate
from howsure.decide.outcomes import Nearest, Row, Verdicts, certified_threshold, nearest, rows_of, verdicts_of
from howsure.demo.folder import UNKNOWN, corruption_of, prepare, write_pictures
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, cat
from howsure.errors import CalibrationError
from howsure.index import LocalIndex
from howsure.plots.figures import require_matplotlib
from howsure.recipe import recipe_for
from howsure.training import Event, Step, method_named, run_training

__all__ = ["CONFIDENCE", "HOWSURE", "MAX_ERROR", "NEAREST", "PROMISED", "Demo", "Query", "run"]

MAX_ERROR, CONFIDENCE = 0.05, 0.95
KINDS = ("known", "unknown", "corrupted")  # of test queries
PROMISED = ("known", "unknown")  # those that are like the calibration's
NEAREST, SIMILARITY, MARGIN, HOWSURE = "nearest neighbour", "top-1 similarity", "margin", "howsure"

Stage = Callable[[str, int], AbstractContextManager[Callable[[float], None]]]


@dataclass(frozen=True)
class Query:
    """One test picture and its answer."""

    kind: str  # one of KINDS
    label: str  # what it shows
    path: Path
    corruption: str  # by name and severity, else ""
    finding: Finding
    answered: bool
    wrong: bool  # only where answered
    best_is_right: bool  # the best match shows the same, answered or not


@dataclass(frozen=True, eq=False)
class Enrolled:
    """The pictures of the gallery, and their embeddings."""

    images: ImageSet
    embedding: Embedding

    @property
    def labels(self) -> list[str]:
        """What each item shows."""
        return [str(label) for label in self.images.labels]


@dataclass(frozen=True, eq=False)
class Demo:
    """What a run made and found."""

    folder: Path
    embedder: Embedder
    policy: Policy | None
    no_policy: str  # why there is none
    rows: tuple[Row, ...]
    queries: tuple[Query, ...]
    embedding: Embedding  # of the queries, in their order
    plain: Nearest  # of a search over means
    gallery: Enrolled
    seed: int
    seconds: dict[str, float]

    def row(self, name: str) -> Row:
        """One row of the table."""
        return next(row for row in self.rows if row.name == name)

    @property
    def report(self) -> Path:
        """Where the report goes."""
        return self.folder / "report.html"


def run(
    out: Path,
    *,
    method: str = "point",
    seed: int = 0,
    epochs: int | None = None,
    device: str = "cpu",
    stage: Stage = lambda task, total: nullcontext(lambda done: None),
) -> Demo:
    """Do all of it below `out`. A directory that an earlier demo made is replaced; any other is refused."""
    require_matplotlib()
    method_named(method)  # a mistake is found before anything is removed
    recipe = recipe_for("digits").but(method=method, seed=seed, epochs=epochs)
    prepare(out)
    seconds: dict[str, float] = {}
    timed = _timed(stage, seconds)
    with timed("writing pictures", 1):
        write_pictures(out / "pictures", seed=seed)
    reference = data.load(out / "pictures" / "gallery")
    with timed("training", recipe.epochs) as bar:

        def tell(event: Event) -> None:
            if isinstance(event, Step):
                bar(event.epoch - 1 + event.step / event.steps)

        embedder = run_training(reference, recipe, out=out / "model", device=device, tell=tell).embedder
    with timed("indexing", len(reference)) as bar:
        gallery = _indexed(reference, embedder, out=out, bar=bar)

    held = {kind: data.load(out / "pictures" / "calibration" / kind) for kind in PROMISED}
    held_labels = [None if kind == "unknown" else label for kind in PROMISED for label in held[kind].labels]
    with timed("calibrating", len(held_labels)):
        held_embedding = cat([embedder.encode(images) for images in held.values()])
        policy, no_policy = _calibrated(held_embedding, held_labels, gallery, embedder, seed=seed)
        if policy:
            policy.save(out / "model")

    tests = {kind: data.load(out / "pictures" / kind) for kind in KINDS}
    with timed("asking", sum(map(len, tests.values()))), LocalIndex.open(out / "gallery") as index:
        embedding = cat([embedder.encode(images) for images in tests.values()])
        findings = ask(index, embedding, policy=policy)

    kinds = [kind for kind, images in tests.items() for _ in images.ids]
    labels = [str(label) for images in tests.values() for label in images.labels]
    paths = [Path(str(path)) for images in tests.values() for path in images.paths]
    ours = verdicts_of(findings, labels, unknown=[label in UNKNOWN for label in labels])
    plain, held_plain = (nearest(queries, gallery.embedding, gallery.labels) for queries in (embedding, held_embedding))
    verdicts = _baselines(plain, labels, held_plain, held_labels, seed=seed) | {HOWSURE: ours}
    queries = tuple(_query(*one) for one in zip(kinds, labels, paths, findings, ours.answered, ours.wrong, strict=True))
    return Demo(
        out, embedder, policy, no_policy, rows_of(verdicts, kinds), queries, embedding, plain, gallery, seed, seconds
    )


def _timed(stage: Stage, seconds: dict[str, float]) -> Stage:
    @contextmanager
    def timed(task: str, total: int) -> Iterator[Callable[[float], None]]:
        begun = time.perf_counter()
        with stage(task, total) as bar:
            yield bar
        seconds[task] = round(time.perf_counter() - begun, 2)

    return timed


def _indexed(images: ImageSet, embedder: Embedder, *, out: Path, bar: Callable[[float], None]) -> Enrolled:
    embedding = embedder.encode(images, progress=bar)
    about = {"model": str((out / "model").resolve()), "fingerprint": embedder.fingerprint}
    with LocalIndex.create(out / "gallery", about=about) as index:
        stamps = [{"path": str(Path(str(path)).resolve())} for path in images.paths]
        index.add(images.ids, embedding, labels=images.labels, metadata=stamps)
    return Enrolled(images, embedding)


def _calibrated(
    embedding: Embedding, labels: Sequence[str | None], gallery: Enrolled, embedder: Embedder, *, seed: int
) -> tuple[Policy | None, str]:
    """The policy, or why there is none: then nothing is answered, which is what a user would get too."""
    try:
        policy = calibrate(
            embedding,
            labels,
            gallery.embedding,
            gallery.labels,
            max_error=MAX_ERROR,
            confidence=CONFIDENCE,
            seed=seed,
            model=embedder.fingerprint,
        )
    except CalibrationError as error:
        return None, str(error)
    return policy, ""


def _baselines(
    plain: Nearest, labels: Sequence[str], held: Nearest, held_labels: Sequence[str | None], *, seed: int
) -> dict[str, Verdicts]:
    """Always answer; or answer from a similarity or a margin on, certified on the same calibration queries."""
    wrong = plain.identity != np.asarray(labels)
    held_wrong = held.identity != np.asarray(held_labels, dtype=object)
    out = {NEAREST: Verdicts(np.ones(len(wrong), bool), wrong)}
    for name, score, held_score in (
        (SIMILARITY, plain.similarity, held.similarity),
        (MARGIN, plain.margin, held.margin),
    ):
        limit = certified_threshold(-held_score, held_wrong, max_error=MAX_ERROR, confidence=CONFIDENCE, seed=seed)
        answered = np.zeros(len(wrong), bool) if limit is None else -score <= limit
        out[name] = Verdicts(answered, wrong & answered)
    return out


def _query(kind: str, label: str, path: Path, finding: Finding, answered: bool, wrong: bool) -> Query:
    right = finding.matches[0].label == label
    return Query(kind, label, path, corruption_of(path), finding, bool(answered), bool(wrong), right)
