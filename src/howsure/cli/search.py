"""howsure search: what in the gallery is this, if anything?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from howsure.cli.console import Json, Strict, device, print_json, report_skipped, say
from howsure.errors import GalleryError, ModelError

if TYPE_CHECKING:
    from howsure.decide import Finding, Policy
    from howsure.embedder import Embedder
    from howsure.index import Index
    from howsure.match import Matcher


def search(
    gallery: Annotated[Path, typer.Argument(metavar="GALLERY", help="A gallery made by howsure index.")],
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Pictures, or folders and sets of them.")],
    k: Annotated[int, typer.Option("-k", help="How many matches to show.", min=1)] = 5,
    model: Annotated[Path | None, typer.Option("-m", "--model", help="The model, if it has moved.")] = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Search a gallery: the answer, how probable it is, and the matches it rests on."""
    from howsure import data as pictures
    from howsure.decide import ask
    from howsure.index import Index

    results: list[dict[str, Any]] = []
    with Index.open(gallery) as index:
        if index.recovered:
            say(index.recovered)
        embedder, policy, matcher = load_model_of(index, gallery, model)
        for source in images:
            encoded = embedder.encode_set(pictures.load(source), strict=strict)
            report_skipped(encoded.skipped)
            findings = ask(index, encoded.embedding, policy=policy, matcher=matcher, k=k)
            shown = [str(path or name) for path, name in zip(encoded.images.paths, encoded.images.ids, strict=True)]
            results += [_json(name, finding) for name, finding in zip(shown, findings, strict=True)]
    if as_json:
        print_json(results)
        return
    for result in results:
        _print(result)


def load_model_of(index: Index, gallery: Path, model: Path | None) -> tuple[Embedder, Policy | None, Matcher | None]:
    """The model that made a gallery, with its policy and its matcher."""
    from howsure.decide import Policy
    from howsure.embedder import Embedder
    from howsure.match import Matcher

    path = model or Path(index.about.get("model", ""))
    try:
        embedder = Embedder.load(path)
    except ModelError as error:
        raise ModelError(f"the model of gallery {gallery}: {error}", fix="say where it is: --model MODEL") from error
    if embedder.fingerprint != index.about.get("fingerprint"):
        raise GalleryError(
            f"gallery {gallery}",
            expected=f"the model that made it, {index.about.get('fingerprint')}",
            got=f"{embedder.fingerprint} at {path}",
            fix="give the right --model, or index again",
        )
    first = embedder.card.get("matcher")
    policy = Policy.load(path, model=embedder.fingerprint)
    return embedder.to(device()), policy, Matcher(**first) if first else None


def _json(query: str, finding: Finding) -> dict[str, Any]:
    return {
        "query": query,
        "answer": finding.answer.kind,
        "reason": finding.answer.reason,
        "probability": finding.answer.probability,
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
    if result["reason"]:
        said += f"   ({REASONS[result['reason']]})"
    print(f"{result['query']}\n  {said}")
    for match in result["matches"]:
        probability = "      " if match["probability"] is None else f"{match['probability']:.4f}"
        print(f"    {probability}  {match['distance']:.4f}  {match['label'] or '':<16} {match['id']}")
