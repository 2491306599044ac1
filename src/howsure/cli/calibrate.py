"""howsure calibrate: from a tolerated error rate to a policy with a guarantee."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from howsure.cli.console import Json, Seed, Strict, device, print_json, say
from howsure.cli.model import encode, load_model
from howsure.errors import CalibrationError, InputError

if TYPE_CHECKING:
    from howsure.decide import Policy
    from howsure.embedder import Encoded


def calibrate(
    where: Annotated[
        str, typer.Argument(metavar="GALLERY|MODEL", help="A gallery or a model directory; the policy is kept there.")
    ],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled pictures that the model was not trained on.")],
    max_error: Annotated[float, typer.Option(help="The error rate among answers that you tolerate.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="How sure the promise must be.")] = 0.95,
    gallery: Annotated[
        str | None, typer.Option(help="With MODEL: the gallery to answer from; else half of DATA is one.")
    ] = None,
    unknown: Annotated[str | None, typer.Option(help="Pictures of things that no gallery will hold.")] = None,
    unknown_rate: Annotated[float, typer.Option(help="Without --unknown: share of queries with no match.")] = 0.2,
    seed: Seed = 0,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Find the policy that answers most queries while errors stay below a rate you set, with a guarantee.

    If no policy can promise that, says so, exits with 1 and leaves everything as it was.
    """
    from howsure.decide import calibrate as fit
    from howsure.embeddings import cat
    from howsure.gallery import Gallery

    tolerated: dict[str, Any] = {
        "max_error": max_error,
        "confidence": confidence,
        "unknown_rate": unknown_rate,
        "seed": seed,
    }
    model = None if _is_gallery(where) else Path(where)
    if model is None and gallery is not None:
        raise InputError("--gallery", expected="a MODEL before it", got=f"the gallery {where}", fix="leave it out")
    answering = where if model is None else gallery
    with Gallery.open(answering, model=model) if answering is not None else nullcontext() as opened:
        embedder = opened.embedder.to(device()) if opened else load_model(Path(where))
        held = encode(embedder, data, strict=strict, labelled=True)
        others = encode(embedder, unknown, strict=strict) if unknown is not None else None
        more, names = (others.embedding, list(others.images.ids)) if others else (None, [])
        try:
            if opened:
                ids = [*held.images.ids, *names]
                policy = opened.calibrate(held.embedding, held.images.labels, unknown=more, ids=ids, **tolerated)
            else:
                query, references = _halves(held, seed=seed)
                policy = fit(
                    query.embedding if more is None else cat([query.embedding, more]),
                    [*query.images.labels, *[None] * len(names)],
                    references.embedding,
                    list(map(str, references.images.labels)),
                    model=embedder.fingerprint,
                    ids=[*query.images.ids, *names],
                    **tolerated,
                )
        except CalibrationError as error:
            say(f"howsure: {error}")
            raise typer.Exit(1) from error
    if model is not None:
        policy.save(model)
    if as_json:
        print_json({"threshold": policy.threshold, **vars(policy.certificate), "honesty": policy.honesty})
    else:
        _print(where, policy)


def _is_gallery(where: str) -> bool:
    return "://" in where or (Path(where).is_dir() and not (Path(where) / "card.json").exists())


def _halves(held: Encoded, *, seed: int) -> tuple[Encoded, Encoded]:
    """Queries and gallery, where no gallery is given."""
    from howsure import data as pictures
    from howsure.embedder import Encoded

    row_of = {name: row for row, name in enumerate(held.images.ids)}
    parts = pictures.split(held.images, {"queries": 0.6, "references": 0.4}, seed=seed)
    query, gallery = (Encoded(held.embedding[[row_of[name] for name in part.ids]], part, ()) for part in parts)
    return query, gallery


def _print(where: str, policy: Policy) -> None:
    from scipy.special import expit

    made = policy.certificate
    print(f"{where}: answers {made.coverage:.1%} of queries ({made.n} tested, {made.unknown_rate:.0%} without a match)")
    print(f"  match   from P(right) = {policy.threshold:.4f}   {made.match_coverage:.1%} of queries")
    if policy.unknown_at is not None:
        print(f"  unknown from P(none) = {expit(policy.unknown_at):.4f}   {made.unknown_coverage:.1%} of queries")
    print(f"  error among answers at most {made.error_bound:.4f}, with confidence {made.confidence:g}")
    print(f"  on held-out data {made.data}, in a gallery of {made.identities} identities; on new identities:")
    for report in policy.honesty.values():
        print(f"    P({report.event}), {report.link}: ECE {report.ece:.4f}, Brier {report.brier:.4f}")
