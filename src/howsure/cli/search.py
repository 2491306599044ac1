"""howsure search: what in the gallery is this, if anything?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from howsure.cli.console import Json, Strict, device, print_json, report_skipped, say

if TYPE_CHECKING:
    from howsure.decide import Finding, Policy


def search(
    gallery: Annotated[
        str, typer.Argument(metavar="GALLERY", help="A gallery made by howsure index: a path or a URL.")
    ],
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Pictures, or folders and sets of them.")],
    k: Annotated[int, typer.Option("-k", help="How many matches to show.", min=1)] = 5,
    model: Annotated[Path | None, typer.Option("-m", "--model", help="The model, if it has moved.")] = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Search a gallery: the answer, how probable it is, and the matches it rests on."""
    from howsure import data as pictures
    from howsure.decide import ask
    from howsure.index import connect
    from howsure.tasks.opening import model_of

    results: list[dict[str, Any]] = []
    with connect(gallery) as index:
        if index.recovered:
            say(index.recovered)
        embedder, policy, matcher = model_of(index, gallery, model)
        embedder.to(device())
        same_size = policy is None or len(index) == policy.certificate.gallery
        identities = None if same_size else index.count_identities()
        for source in images:
            encoded = embedder.encode_set(pictures.load(source), strict=strict)
            report_skipped(encoded.skipped)
            findings = ask(index, encoded.embedding, policy=policy, matcher=matcher, k=k, identities=identities)
            shown = [str(path or name) for path, name in zip(encoded.images.paths, encoded.images.ids, strict=True)]
            results += [_json(name, finding) for name, finding in zip(shown, findings, strict=True)]
    _watch(results, policy)
    if as_json:
        print_json(results)
        return
    for result in results:
        _print(result)


def _watch(results: list[dict[str, Any]], policy: Policy | None) -> None:
    """Say whether these queries are still like those of calibration; None where there is nothing to tell it by."""
    import numpy as np

    from howsure.decide import Drift

    drifted: bool | None = None
    if policy and (drift := Drift(policy.reference)).watches:
        # By lot, because folders come in order: all pictures of one class are not yet a change.
        for row in np.random.default_rng(0).permutation(len(results)):
            drift.see(results[row]["uncertainty"], results[row]["novelty"])
        drifted = drift.state.drifted
    if drifted:
        say(
            f"howsure: these {len(results)} pictures are not like those the model was calibrated on; "
            "its promise does not cover them: look at them, then calibrate again"
        )
    for result in results:
        result["drift"] = drifted


def _json(query: str, finding: Finding) -> dict[str, Any]:
    return {
        "query": query,
        "answer": finding.answer.kind,
        "reason": finding.answer.reason,
        "probability": finding.answer.probability,
        "none": finding.answer.none,
        "uncertainty": finding.uncertainty,
        "novelty": finding.novelty,
        "matches": [vars(match) for match in finding.matches],
        "exact": finding.exact,
    }


def _print(result: dict[str, Any]) -> None:
    from howsure.decide import REASONS

    words = {"match": "match", "unknown": "unknown", "not_sure": "not sure"}[result["answer"]]
    best = result["matches"][0] if result["matches"] else None
    said = f"{words}: {best['label'] or best['id']}" if best and words == "match" else words
    if result["probability"] is not None:
        said += f"   P(best match is right) = {result['probability']:.3f}"
    if result["none"] is not None:
        said += f"   P(none of the gallery) = {result['none']:.3f}"
    if result["reason"]:
        said += f"   ({REASONS[result['reason']]})"
    print(f"{result['query']}\n  {said}")
    for match in result["matches"]:
        probability = "      " if match["probability"] is None else f"{match['probability']:.4f}"
        print(f"    {probability}  {match['distance']:.4f}  {match['label'] or '':<16} {match['id']}")
