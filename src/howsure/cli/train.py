"""howsure train: from labelled pictures to a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from howsure.cli.console import Json, Strict, device, phases, print_json, report_skipped, say
from howsure.errors import ModelError

if TYPE_CHECKING:
    from howsure.data import ImageSet
    from howsure.embedder import Embedder
    from howsure.recipe import Recipe

METHOD_HELP = (
    "point, dropout, laplace-online, gaussian, csd, ranking, hedged, hedged-2, soft-contrastive, centroids, "
    "centroids-ce, vmf, norm, mc-infonce; pfe with --from."
)


def train(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A folder of folders, a CSV or JSONL of path,label, or a set.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The model directory to write.")],
    method: Annotated[str | None, typer.Option(help=METHOD_HELP)] = None,
    start: Annotated[
        Path | None, typer.Option("--from", help="A model to keep: pfe or ranking add uncertainty, no mean moves.")
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Dimensions of the embedding.", min=1)] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the pictures, at most.", min=1)] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice.", min=0)] = None,
    loss: Annotated[
        str | None, typer.Option(help="contrastive, triplet, csd, or a pytorch-metric-learning class.")
    ] = None,
    miner: Annotated[str | None, typer.Option(help="all, easy, semihard, hard or hardest.")] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(help="A TOML file with these settings and more, or: pretrained, default. Else what fits DATA."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a stopped run ended.")] = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Train an embedder on labelled pictures."""
    _check_free(out, resume=resume)
    from howsure import data as pictures
    from howsure import training
    from howsure.embedder import Embedder
    from howsure.training import Event, Preparation, Step

    origin = Embedder.load(start) if start else None
    images = pictures.load(data)
    settings = _recipe(images, data, recipe, begun=training.stored_recipe(out) if resume else None, origin=origin).but(
        method=method, dim=dim, epochs=epochs, seed=seed, loss=loss, miner=miner
    )
    say(f"{images.name}: {len(images)} pictures, {len(images.classes)} classes; {settings.method}, {settings.dim}-D")
    with phases() as bar:

        def tell(event: Event) -> None:
            if isinstance(event, Step):
                note = f"epoch {event.epoch}, loss {event.loss:.3f}"
                bar("training", event.epoch - 1 + event.step / event.steps, event.epochs, note)
            elif isinstance(event, Preparation):
                bar(event.task, event.done, event.total)
            else:
                say(f"epoch {event.epoch}: loss {event.loss:.4f}, validation recall@1 {event.recall_at_1:.4f}")

        try:
            done = training.run_training(
                images, settings, out=out, resume=resume, strict=strict, device=device(), start=origin, tell=tell
            )
        except KeyboardInterrupt as error:
            say("stopped; the same command with --resume goes on from the last whole epoch")
            raise typer.Exit(130) from error
    report_skipped(done.skipped)
    best = max(done.history, key=lambda epoch: (epoch.recall_at_1, epoch.epoch))
    if as_json:
        print_json(
            {
                "model": str(out),
                "recall_at_1": best.recall_at_1,
                "best_epoch": best.epoch,
                "epochs": len(done.history),
                "history": [vars(epoch) for epoch in done.history],
                "recipe": settings.model_dump(),
                "origin": done.embedder.card.get("origin"),
                "classes": len(done.embedder.card["classes"]),
                "skipped": done.skipped,
            }
        )
    else:
        print(f"{out}: validation recall@1 {best.recall_at_1:.4f} after epoch {best.epoch} of {len(done.history)}")
        print(f"next: howsure calibrate {out} HELD-OUT-PICTURES")


def _check_free(out: Path, *, resume: bool) -> None:
    if not resume and ((out / "card.json").exists() or (out / "checkpoint.safetensors").exists()):
        raise ModelError(f"{out} already holds a model", fix="use --resume to go on with it, or another name")
    if out.exists() and not out.is_dir():
        raise ModelError(f"{out}", expected="a directory to write", got="a file", fix="use another name")


def _recipe(
    images: ImageSet, source: str, file: Path | None, *, begun: Recipe | None, origin: Embedder | None
) -> Recipe:
    from howsure.backbones import PRETRAINED
    from howsure.recipe import read_recipe, recipe_for
    from howsure.training.choice import PHOTOGRAPHS, fitting_recipe
    from howsure.training.from_model import network_of

    if file:
        return read_recipe(file)
    if begun:
        return begun
    if origin:
        return recipe_for(source).but(**network_of(origin))
    found = fitting_recipe(source, images)
    if found.backbone in PRETRAINED:
        network = f"{found.backbone} at {found.height} pixels"
        say(f"photographs: recipe {PHOTOGRAPHS}, {network}; from scratch: --recipe default")
    return found
