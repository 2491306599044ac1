"""howsure laplace: uncertainty for a model that is already trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli.console import Json, Strict, print_json, say
from howsure.cli.model import load_model, require_no_model
from howsure.errors import InputError


def laplace(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="The labelled pictures it was trained on.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The model directory to write.")],
    structure: Annotated[
        str | None,
        typer.Option(
            help="last-full, last-low-rank or last-diagonal, by default what the width of the network allows; "
            "diagonal, exact-diagonal or kronecker for the whole network."
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="Precision of the prior: a number, marginal (likelihood; by default) or validation (by pictures held "
            "out of training; by default for the whole network)."
        ),
    ] = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Fit a Laplace posterior to the weights: no mean moves; embeddings gain an uncertainty and a novelty."""
    require_no_model(out)
    from typing import cast, get_args

    from howsure import data as pictures
    from howsure.posteriors import laplace
    from howsure.posteriors.laplace import PriorRule, Structure

    if structure is not None and structure not in get_args(Structure):
        raise InputError("structure", expected=" or ".join(get_args(Structure)), got=repr(structure))
    known = cast("float | PriorRule | None", prior if prior is None or prior in get_args(PriorRule) else _number(prior))
    embedder = load_model(model)
    images = pictures.load(data)
    say(f"{images.name}: {len(images)} pictures, {len(images.classes)} classes")
    fitted = laplace.fit(embedder, images, structure=cast("Structure | None", structure), prior=known, strict=strict)
    fitted.save(out)
    summary = fitted.card["laplace"]
    if as_json:
        print_json({"model": str(out), "origin": fitted.card["origin"], **summary})
    else:
        source = f"from {summary['pictures']} pictures"
        print(f"{out}: {summary['structure']}, prior precision {summary['prior']:.3g}, {source}")
        print(f"next: howsure calibrate {out} HELD-OUT-PICTURES")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError("prior", expected="a number, marginal or validation", got=repr(text)) from error
