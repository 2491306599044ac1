"""howsure search: what in the gallery is this, if anything?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from howsure.cli.console import Json, Strict, device, print_json, report_skipped, say

if TYPE_CHECKING:
    from howsure.decide import Finding
    from howsure.gallery import GalleryStatus


def search(
    gallery: Annotated[
        str, typer.Argument(metavar="GALLERY", help="A gallery made by howsure index: a path or a URL.")
    ],
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Pictures, or folders and sets of them.")],
    k: Annotated[int, typer.Option("-k", help="How many matches to show.", min=1)] = 5,
    model: Annotated[Path | None, typer.Option("-m", "--model", help="The model, if it has moved.")] = None,
    sets: Annotated[
        float | None, typer.Option(help="Also show the identities that contain the right one with this probability.")
    ] = None,
    audit: Annotated[
        float,
        typer.Option(help="Draw each query with this probability, for you to label; then --audited.", min=0, max=1),
    ] = 0.0,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Search a gallery: the answer, how probable it is, and the matches it rests on."""
    from howsure import data as pictures
    from howsure.decide.prediction_sets import checked_probability
    from howsure.gallery import Gallery

    with Gallery.open(gallery, model=model) as opened:
        if opened.index.recovered:
            say(opened.index.recovered)
        opened.embedder.to(device())
        looks = opened.policy is not None and opened.policy.quality is not None
        encoded = [opened.embedder.encode_set(pictures.load(one), strict=strict, measured=looks) for one in images]
        wanted = False if sets is None else checked_probability(sets)
        findings = [one for part in encoded for one in opened.ask(part, k, sets=wanted, watch=False, audit=audit)]
        opened.watch(findings)
        status = opened.status()
    for one in encoded:
        report_skipped(one.skipped)
    shown = [str(path or name) for one in encoded for path, name in zip(one.images.paths, one.images.ids, strict=True)]
    drifted = status.drift.drifted if status.drift else None
    results = [
        _json(name, finding) | {"drift": drifted, "stale": list(status.stale)}
        for name, finding in zip(shown, findings, strict=True)
    ]
    _warn(status, len(results))
    if audit:
        drawn = sum(one.audit is not None for one in findings)
        say(f"{drawn} of {len(findings)} queries were drawn for the audit; howsure label {gallery} lists what to label")
    if as_json:
        print_json(results)
        return
    for result in results:
        _print(result)


def _warn(status: GalleryStatus, queries: int) -> None:
    """Warn of what the promise does not cover."""
    if status.stale:
        say(f"howsure: the promise was made for another gallery: {', '.join(status.stale)}; calibrate again")
    if status.drift and status.drift.drifted:
        say(
            f"howsure: these {queries} pictures are not like those the model was calibrated on; "
            "its promise does not cover them: look at them, then calibrate again"
        )


def _json(query: str, finding: Finding) -> dict[str, Any]:
    return {
        "query": query,
        "answer": finding.answer.kind,
        "reason": finding.answer.reason,
        "why": finding.answer.why,
        "fault": finding.answer.fault,
        "probability": finding.answer.probability,
        "needed": finding.answer.needed,
        "none": finding.answer.none,
        "uncertainty": finding.uncertainty,
        "novelty": finding.novelty,
        "matches": [vars(match) for match in finding.matches],
        "exact": finding.exact,
        "set": finding.set,
        "audit": finding.audit,
    }


def _print(result: dict[str, Any]) -> None:
    words = {"match": "match", "unknown": "unknown", "not_sure": "not sure"}[result["answer"]]
    best = result["matches"][0] if result["matches"] else None
    line = f"{words}: {best['label'] or best['id']}" if best and words == "match" else words
    if result["probability"] is not None:
        line += f"   P(best match is right) = {result['probability']:.3f}"
        if words != "match" and result["reason"] != "unlikely" and result["probability"] < result["needed"]:
            line += f", a match needs {result['needed']:.3f}"
    if result["none"] is not None:
        line += f"   P(none of the gallery) = {result['none']:.3f}"
    if result["why"]:
        line += f"   ({result['why']})"
    print(f"{result['query']}\n  {line}")
    if chosen := result["set"]:
        named = [*chosen.identities, *(["unknown"] if chosen.unknown else [])]
        one_of = "" if len(named) == 1 else f"one of {len(named)}, "
        print(f"  with {chosen.probability:.0%} probability {one_of}{', '.join(named)}")
    for match in result["matches"]:
        probability = "      " if match["probability"] is None else f"{match['probability']:.4f}"
        print(f"    {probability}  {match['distance']:.4f}  {match['label'] or '':<16} {match['id']}")
