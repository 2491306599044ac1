"""howsure cluster: which pictures show the same thing, when nobody has named any."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from howsure.cli.console import Json, Strict, device, print_json, progress, report_skipped, skipped_json
from howsure.errors import InputError, ModelError

if TYPE_CHECKING:
    import numpy as np

    from howsure.embedder import Embedder, Encoded


def cluster(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Pictures: a folder, a CSV or JSONL, or a set.")],
    model: Annotated[Path, typer.Option("-m", "--model", help="A model directory.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE.csv", help="Where clusters are written.")],
    like: Annotated[
        str | None, typer.Option(metavar="DATA", help="Labelled pictures by which to choose how near is near enough.")
    ] = None,
    probability: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Without --like: join where P(same) of a balanced pair is this.")
    ] = 0.5,
    plain: Annotated[bool, typer.Option("--plain", help="Do not listen to confidence.")] = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Put pictures of the same thing together: id, cluster (0 is the largest) and uncertainty of each, as CSV.

    The sure pictures form the clusters; doubtful ones join them last, or stay alone. Where the pictures have labels,
    agreement with them is told: B-cubed and pairwise precision, recall and F.
    """
    if out.suffix != ".csv":
        raise InputError("out", expected="a name that ends in .csv", got=str(out))
    from howsure.embedder import Embedder
    from howsure.files import write_whole
    from howsure.tasks.clustering import cluster_tree

    embedder = Embedder.load(model).to(device())
    found = _encoded(embedder, data, strict=strict)
    distance = _distance(embedder, model, found, like=like, probability=probability, weighted=not plain, strict=strict)
    clusters = cluster_tree(found.embedding, weighted=not plain).cut(distance)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "cluster", "uncertainty"])
    doubts = found.embedding.uncertainty.tolist()
    writer.writerows(zip(found.images.ids, clusters.tolist(), map("{:.6g}".format, doubts), strict=True))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, text.getvalue().encode())
    agreement = _agreement(found, clusters)
    if as_json:
        counts = {"pictures": len(clusters), "clusters": int(clusters.max()) + 1, "distance": distance}
        print_json({"file": str(out), **counts, "agreement": agreement, "skipped": skipped_json(found.skipped)})
        return
    print(f"{out}: {len(clusters)} pictures in {clusters.max() + 1} clusters")
    for name, values in (agreement or {}).items():
        print(f"{name:<10}", *(f"{what} {value:.4f}" for what, value in values.items()))


def _encoded(embedder: Embedder, source: str, *, strict: bool) -> Encoded:
    from howsure import data as pictures

    images = pictures.load(source)
    with progress(f"embedding {images.name}", len(images)) as bar:
        done = embedder.encode_set(images, strict=strict, progress=bar)
    report_skipped(done.skipped)
    return done


def _distance(
    embedder: Embedder,
    model: Path,
    found: Encoded,
    *,
    like: str | None,
    probability: float,
    weighted: bool,
    strict: bool,
) -> float:
    """How near is near enough: what labelled pictures say, or else the model's matcher."""
    from howsure.match import Matcher
    from howsure.tasks.clustering import cluster_tree, cut_for

    if like is not None:
        known = _encoded(embedder, like, strict=strict)
        if None in known.images.labels:
            raise InputError(f"labels of {known.images.name}", expected="one for every picture", got="some missing")
        return cluster_tree(known.embedding, weighted=weighted).best_cut([str(label) for label in known.images.labels])
    fitted = embedder.card.get("matcher")
    if fitted is None:
        raise ModelError(f"{model} cannot tell probabilities", fix="give labelled pictures with --like")
    return cut_for(Matcher(**fitted).at(0.5), found.embedding, probability=probability)


def _agreement(found: Encoded, clusters: np.ndarray) -> dict[str, dict[str, float]] | None:
    """With the labels, where every picture has one and some share theirs."""
    from howsure.metrics import b_cubed, pairwise_f

    labels = [str(label) for label in found.images.labels]
    if None in found.images.labels or len(set(labels)) == len(labels):
        return None
    judged = {"B-cubed": b_cubed(labels, clusters), "pairwise": pairwise_f(labels, clusters)}
    return {
        name: {"F": value.f, "precision": value.precision, "recall": value.recall} for name, value in judged.items()
    }
