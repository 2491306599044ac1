"""howsure label-next: which pictures to label next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli.console import Json, Strict, print_json
from howsure.cli.model import encode, load_model


def label_next(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Pictures to choose from; their labels are not read.")],
    model: Annotated[Path, typer.Option("-m", "--model", help="A model directory.")],
    count: Annotated[int, typer.Option("-n", "--count", help="How many.", min=1)] = 50,
    labelled: Annotated[str | None, typer.Option(metavar="DATA", help="Pictures that have their labels.")] = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """List the pictures whose labels would help most, the first first, and why each is on the list.

    ambiguous: its answer is likely wrong; novel: unlike what the model has seen; different: unlike what is labelled.
    """
    from howsure.tasks import labelling

    embedder = load_model(model)
    known = encode(embedder, labelled, strict=strict) if labelled else None
    found = encode(embedder, data, strict=strict)
    wanted = labelling.label_next(
        found.embedding, min(count, len(found.images)), labelled=known.embedding if known else None
    )
    names = found.images.ids
    if not as_json:
        for one in wanted:
            print(f"{one.reason:<10} {names[one.row]}")
        return
    rows = [
        {"id": names[one.row], "reason": one.reason, "ambiguity": one.ambiguity, "novelty": one.novelty}
        for one in wanted
    ]
    print_json({"label": rows, "skipped": found.skipped})
