"""howsure calibrate: from a tolerated error rate to a policy with a guarantee."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from howsure.cli.console import Json, Seed, Strict, device, print_json, progress, report_skipped, say
from howsure.errors import CalibrationError, GalleryError, InputError

if TYPE_CHECKING:
    from howsure.data import ImageSet
    from howsure.embedder import Embedder, Encoded
    from howsure.embeddings import Embedding


def calibrate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory; its policy is written there.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled pictures that the model was not trained on.")],
    max_error: Annotated[float, typer.Option(help="The error rate among answers that you tolerate.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="How sure the promise must be.")] = 0.95,
    gallery: Annotated[str | None, typer.Option(help="The gallery to answer from; else half of DATA is one.")] = None,
    unknown: Annotated[str | None, typer.Option(help="Pictures of things that no gallery will hold.")] = None,
    unknown_rate: Annotated[float, typer.Option(help="Without --unknown: share of queries with no match.")] = 0.2,
    seed: Seed = 0,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Find the policy that answers most queries while errors stay below a rate you set, with a guarantee.

    If no policy can promise that, says so, exits with 1 and leaves the model as it was.
    """
    from scipy.special import expit

    from howsure import data as pictures
    from howsure.decide import calibrate as fit
    from howsure.embedder import Embedder
    from howsure.embeddings import cat

    embedder = Embedder.load(model).to(device())
    held = _encoded(embedder, pictures.load(data), strict=strict)
    query, labels, ids, reference, identities = _roles(held, gallery, embedder, seed=seed)
    if unknown is not None:
        strangers = _encoded(embedder, pictures.load(unknown), strict=strict)
        query, labels = cat([query, strangers.embedding]), labels + [None] * len(strangers.embedding)
        ids += strangers.images.ids
    try:
        policy = fit(
            query,
            labels,
            reference,
            identities,
            max_error=max_error,
            confidence=confidence,
            unknown_rate=unknown_rate,
            seed=seed,
            model=embedder.fingerprint,
            ids=ids,
        )
    except CalibrationError as error:
        say(f"howsure: {error}")
        raise typer.Exit(1) from error
    policy.save(model)
    made = policy.certificate
    if as_json:
        judged = {name: asdict(honesty) for name, honesty in policy.honesty.items()}
        print_json({"threshold": policy.threshold, **asdict(made), "honesty": judged})
        return
    print(f"{model}: answers {made.coverage:.1%} of queries ({made.n} tested, {made.unknown_rate:.0%} without a match)")
    print(f"  match   from P(right) = {policy.threshold:.4f}   {made.match_coverage:.1%} of queries")
    if policy.unknown_at is not None:
        print(f"  unknown from P(none) = {expit(policy.unknown_at):.4f}   {made.unknown_coverage:.1%} of queries")
    print(f"  error among answers at most {made.error_bound:.4f}, with confidence {made.confidence:g}")
    print(f"  on held-out data {made.data}, in a gallery of {made.identities} identities; on new identities:")
    for honesty in policy.honesty.values():
        print(f"    P({honesty.event}), {honesty.link}: ECE {honesty.ece:.4f}, Brier {honesty.brier:.4f}")


def _encoded(embedder: Embedder, images: ImageSet, *, strict: bool) -> Encoded:
    with progress(f"embedding {images.name}", len(images)) as bar:
        encoded = embedder.encode_set(images, strict=strict, progress=bar)
    report_skipped(encoded.skipped)
    return encoded


def _roles(
    held: Encoded, gallery: str | None, embedder: Embedder, *, seed: int
) -> tuple[Embedding, list[str | None], list[str], Embedding, list[str]]:
    """Who asks, with labels and ids, and who answers: held-out pictures a gallery, or some of them the others."""
    from howsure import data as pictures
    from howsure.index import connect

    images = held.images
    if None in images.labels:
        raise InputError(
            f"labels of {images.name}", expected="one for every picture", got=f"{images.labels.count(None)} missing"
        )
    if gallery is None:
        ask, answer = pictures.split(images, {"queries": 0.6, "references": 0.4}, seed=seed)
        place = {name: row for row, name in enumerate(images.ids)}
        rows = [[place[name] for name in part.ids] for part in (ask, answer)]
        known = list(map(str, answer.labels))
        return held.embedding[rows[0]], list(ask.labels), list(ask.ids), held.embedding[rows[1]], known
    with connect(gallery) as index:
        if index.about.get("fingerprint") != embedder.fingerprint:
            raise GalleryError(
                f"gallery {gallery}",
                expected=f"made by {embedder.fingerprint}",
                got=str(index.about.get("fingerprint")),
            )
        ids, belief = index.embedding()
        identities = [label or f"item {name}" for name, label in zip(ids, index.labels(ids), strict=True)]
    return held.embedding, list(images.labels), list(images.ids), belief, identities
