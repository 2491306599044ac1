"""howsure calibrate: from a tolerated error rate to a policy with a guarantee."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from howsure.cli.console import Json, Seed, Strict, device, print_json, say
from howsure.cli.model import encode, load_model
from howsure.errors import CalibrationError, InputError

if TYPE_CHECKING:
    from howsure.decide import Policy
    from howsure.decide.seen import Items, Seen
    from howsure.embedder import Encoded


def calibrate(
    where: Annotated[
        str, typer.Argument(metavar="GALLERY|MODEL", help="A gallery or a model directory; the policy is kept there.")
    ],
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="Labelled pictures that the model was not trained on.")
    ] = None,
    max_error: Annotated[float, typer.Option(help="Of the matches answered, the share that may be wrong.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="How sure the promise must be.")] = 0.95,
    max_false_unknown: Annotated[
        float, typer.Option(help="Of queries that are in the gallery, the share that may be called unknown.")
    ] = 0.01,
    max_false_match: Annotated[
        float | None, typer.Option(help="Of queries that are not in the gallery, the share that may get a match.")
    ] = None,
    gallery: Annotated[
        str | None, typer.Option(help="With MODEL: the gallery to answer from; else half of DATA is one.")
    ] = None,
    unknown: Annotated[str | None, typer.Option(help="Pictures of things that no gallery will hold.")] = None,
    unknown_rate: Annotated[float, typer.Option(help="Without --unknown: share of queries with no match.")] = 0.2,
    audited: Annotated[
        bool, typer.Option("--audited", help="In place of DATA: what howsure search --audit drew and you labelled.")
    ] = False,
    allow_seen: Annotated[
        bool, typer.Option("--allow-seen", help="Also by pictures of the gallery or of training; the promise is void.")
    ] = False,
    seed: Seed = 0,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Find the policy that answers most queries while errors stay below a rate you set, with a guarantee.

    If no policy can promise that, says so, exits with 1 and leaves everything as it was.
    """
    tolerated: dict[str, Any] = {
        "max_error": max_error,
        "confidence": confidence,
        "max_false_unknown": max_false_unknown,
        "max_false_match": max_false_match,
        "unknown_rate": unknown_rate,
        "seed": seed,
    }
    if audited == (data is not None):
        fix = "howsure calibrate GALLERY DATA, or howsure calibrate GALLERY --audited"
        raise InputError("queries", expected="DATA or --audited", got="both" if audited else "neither", fix=fix)
    is_gallery = _is_gallery(where)
    if is_gallery and gallery is not None:
        raise InputError("--gallery", expected="a MODEL before it", got=f"the gallery {where}", fix="leave it out")
    if audited and (unknown is not None or not is_gallery):
        got = f"the model {where}" if not is_gallery else "--unknown"
        raise InputError("--audited", expected="a GALLERY, and no queries but those drawn from its use", got=got)
    try:
        if data is None:
            policy = _by_audit(where, allow_seen=allow_seen, tolerated=tolerated)
        else:
            how: dict[str, Any] = {"unknown": unknown, "strict": strict, "allow_seen": allow_seen}
            policy = _by_data(where, data, gallery=where if is_gallery else gallery, **how, tolerated=tolerated)
    except CalibrationError as error:
        say(f"howsure: {error}")
        raise typer.Exit(1) from error
    if not is_gallery:
        policy.save(where)
    if policy.certificate.seen:
        _report(policy.certificate.seen)
    if as_json:
        print_json(_json(policy))
    else:
        _print(where, policy)


def _by_audit(where: str, *, allow_seen: bool, tolerated: dict[str, Any]) -> Policy:
    """On queries of the gallery that were drawn by lot."""
    from howsure.gallery import Gallery
    from howsure.web.feedback import queries_in
    from howsure.web.settings import folder_of

    with Gallery.open(where) as opened:
        held, drawn = opened.audit.held_out(), opened.audit.queries()
        volunteered = queries_in(folder_of(where)) - {one.name for one in drawn}
        if held.audit and len(held) < len(drawn):
            behind = f"; {held.audit.waiting} verdicts wait behind it" if held.audit.waiting else ""
            say(f"uses {len(held)} of {len(drawn)} drawn queries: up to the first without a verdict{behind}")
        if volunteered:
            say(f"feedback on {len(volunteered)} queries that nobody drew by lot is not used: it is no fair sample")
        return opened.calibrate(held, allow_seen=allow_seen, **tolerated)


def _by_data(
    where: str,
    data: str,
    *,
    gallery: str | None,
    unknown: str | None,
    strict: bool,
    allow_seen: bool,
    tolerated: dict[str, Any],
) -> Policy:
    """On pictures, in a gallery; where there is none, half of the pictures is one."""
    from howsure.decide import calibrate as fit
    from howsure.decide.seen import unseen
    from howsure.gallery import Gallery
    from howsure.given import quality_of

    model = None if where == gallery else Path(where)
    with Gallery.open(gallery, model=model) if gallery is not None else nullcontext() as opened:
        embedder = opened.embedder.to(device()) if opened else load_model(Path(where))
        held = encode(embedder, data, strict=strict, labelled=True, measured=True)
        others = encode(embedder, unknown, strict=strict, measured=True) if unknown is not None else None
        if opened:
            return opened.calibrate(held, unknown=others, allow_seen=allow_seen, **tolerated)
    query, references = _halves(held, seed=tolerated["seed"])
    query = query if others is None else query.and_unknown(_items(others))
    query, seen = unseen(query, references, embedder.seen, allow=allow_seen)
    policy = fit(
        query.embedding,
        query.labels,
        references.embedding,
        references.identities,
        model=embedder.fingerprint,
        ids=query.ids,
        quality=quality_of(held, side=embedder.spec.side, seed=tolerated["seed"]),
        measures=query.measures,
        **tolerated,
    )
    return replace(policy, certificate=replace(policy.certificate, seen=seen))


def _json(policy: Policy) -> dict[str, Any]:
    made = policy.certificate
    rates = {name: getattr(made, name) for name in ("max_error", "confidence", "error_bound", "coverage")}
    return {"threshold": policy.threshold, **rates, **vars(made), "choice": policy.choice, "honesty": policy.honesty}


def _is_gallery(where: str) -> bool:
    return "://" in where or (Path(where).is_dir() and not (Path(where) / "card.json").exists())


def _halves(held: Encoded, *, seed: int) -> tuple[Items, Items]:
    """Queries and gallery, where no gallery is given."""
    from howsure import data as pictures

    items = _items(held)
    row_of = {name: row for row, name in enumerate(items.ids)}
    parts = pictures.split(held.images, {"queries": 0.6, "references": 0.4}, seed=seed)
    query, gallery = (items[[row_of[name] for name in part.ids]] for part in parts)
    return query, gallery


def _items(found: Encoded) -> Items:
    from howsure.decide.seen import Items

    return Items.from_pictures(found.embedding, found.images, found.content, found.measures)


def _report(seen: Seen) -> None:
    """What was found of the held-out pictures, where anything was."""
    if seen.left_out:
        say(f"left out {seen.left_out} of the held-out pictures, for a promise is about pictures that were never shown")
    for what, named in (
        ("in the gallery", seen.in_gallery),
        ("trained on", seen.trained_on),
        ("copies of others among them", seen.repeated),
        ("near-duplicates of gallery items", seen.near),
    ):
        if named.count:
            say(f"held-out pictures, {what}: {named.count} ({named})")
    if not seen.training_known:
        say("the model does not say all that it was trained on: make sure that none of these pictures was")


def _print(where: str, policy: Policy) -> None:
    made = policy.certificate
    error, far, let_in = made.error, made.false_unknown, made.false_match
    print(f"{where}: answers {made.coverage:.1%} of queries ({made.n} tested, {made.unknown_rate:.0%} without a match)")
    print(f"  match from P(right) = {policy.threshold:.3f}: {made.match_coverage:.1%} of queries")
    print(
        f"    at most {error.bound:.2%} of matches are wrong, with confidence {error.confidence:g} "
        f"({error.events} of {error.n}; tolerated {error.at_most:.2%})"
    )
    if let_in:
        print(
            f"    at most {let_in.bound:.2%} of unknown queries get a match, with confidence {let_in.confidence:g} "
            f"({let_in.events} of {let_in.n}; tolerated {let_in.at_most:.2%})"
        )
    elif made.false_match_rate is not None:
        print(f"    {made.false_match_rate:.1%} of unknown queries got a match (no promise: --max-false-match)")
    if made.false_non_match_rate is not None:
        print(f"    {made.false_non_match_rate:.1%} of known queries got no right match")
    if far:
        print(f"  unknown: {made.unknown_coverage:.1%} of queries")
        print(f"    at most {far.bound:.2%} of known queries are called unknown, on average ({far.events} of {far.n})")
    else:
        print("  unknown is never answered: too few known queries for --max-false-unknown")
    if made.audit:
        rates = ", ".join(f"{rate:g}" for rate in made.audit.rates)
        print(
            f"  tested on {made.audit.used} of {made.audit.drawn} queries drawn by lot, each with probability {rates},"
        )
        print(f"    from {made.audit.since} to {made.audit.until}")
    print(f"  pictures were counted, of {made.asked_identities} identities; a gallery of {made.identities}")
    print(f"  score: {policy.choice.words}, of {len(policy.choice.aurc)} tried on pictures that did not test")
    print("  on new identities:")
    for report in policy.honesty.values():
        print(f"    P({report.event}), {report.link}: ECE {report.ece:.4f}, Brier {report.brier:.4f}")
