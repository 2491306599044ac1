"""howsure evaluate: every metric, with the name of its convention."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli.console import Json, Seed, Strict, device, print_json, progress, report_skipped, say, skipped_json
from howsure.errors import InputError


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled pictures that the model was not trained on.")],
    ood: Annotated[str | None, typer.Option(help="Pictures of another kind, to be told apart.")] = None,
    sheets: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write pictures of the most and the least certain items there.")
    ] = None,
    seed: Seed = 0,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Measure a model: retrieval, verification, selective prediction, calibration, detection of foreign pictures."""
    from howsure import data as pictures
    from howsure.bench.evaluation import evaluate as measure
    from howsure.bench.sheets import sheets_folder, write_sheets
    from howsure.decide import Policy
    from howsure.embedder import Embedder, Encoded
    from howsure.match import Matcher

    embedder = Embedder.load(model).to(device())
    folder = sheets_folder(sheets) if sheets else None

    def encoded(source: str) -> Encoded:
        images = pictures.load(source)
        with progress(f"embedding {images.name}", len(images)) as bar:
            done = embedder.encode_set(images, strict=strict, progress=bar)
        report_skipped(done.skipped)
        return done

    known = encoded(data)
    foreign = encoded(ood) if ood else None
    if None in known.images.labels:
        missing = known.images.labels.count(None)
        raise InputError(f"labels of {known.images.name}", expected="one for every picture", got=f"{missing} missing")
    policy = Policy.load(model, model=embedder.fingerprint)
    first = embedder.card.get("matcher")
    rows = measure(
        known.embedding,
        [str(label) for label in known.images.labels],
        matcher=policy.matcher if policy else Matcher(**first) if first else None,
        ood=foreign.embedding if foreign else None,
        seed=seed,
    )
    written = write_sheets(folder, known.images, known.embedding) if folder else []
    if as_json:
        print_json(
            {
                "model": str(model),
                "data": known.images.name,
                "ood": foreign.images.name if foreign else None,
                "pictures": len(known.images),
                "metrics": {row.name: {"value": row.value, "convention": row.convention} for row in rows},
                "sheets": [str(file) for file in written],
                "skipped": skipped_json([*known.skipped, *(foreign.skipped if foreign else ())]),
            }
        )
        return
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name:<{width}}  {'-' if row.value is None else f'{row.value:.4f}':>8}  {row.convention}")
    for file in written:
        say(f"wrote {file}")
