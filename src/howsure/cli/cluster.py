"""howsure cluster: which pictures show the same thing, when nobody has named any."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from howsure.cli.console import Json, Strict, print_json, require_suffix, write_csv
from howsure.cli.model import encode, load_model
from howsure.errors import ModelError

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
    plain: Annotated[bool, typer.Option("--plain", help="Ignore uncertainty.")] = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Cluster pictures of the same thing: id, cluster (0 is the largest) and uncertainty of each, as CSV.

    Certain pictures form the clusters; uncertain ones join them last, or stay alone. Where the pictures have labels,
    agreement with them is printed: B-cubed and pairwise precision, recall and F.
    """
    require_suffix(out, ".csv")
    from howsure.tasks.clustering import cluster_tree

    embedder = load_model(model)
    found = encode(embedder, data, strict=strict)
    distance = _distance(embedder, found, like=like, probability=probability, weighted=not plain, strict=strict)
    clusters = cluster_tree(found.embedding, weighted=not plain).cut(distance)
    uncertainty = map("{:.6g}".format, found.embedding.uncertainty.tolist())
    rows = zip(found.images.ids, clusters.tolist(), uncertainty, strict=True)
    write_csv(out, ["id", "cluster", "uncertainty"], rows)
    agreement = _agreement(found, clusters)
    if as_json:
        counts = {"pictures": len(clusters), "clusters": int(clusters.max()) + 1, "distance": distance}
        print_json({"file": str(out), **counts, "agreement": agreement, "skipped": found.skipped})
        return
    print(f"{out}: {len(clusters)} pictures in {clusters.max() + 1} clusters")
    for name, values in (agreement or {}).items():
        print(f"{name:<10}", *(f"{what} {value:.4f}" for what, value in values.items()))


def _distance(
    embedder: Embedder, found: Encoded, *, like: str | None, probability: float, weighted: bool, strict: bool
) -> float:
    """How near is near enough: by labelled pictures, or else by the model's matcher."""
    from howsure.tasks.clustering import cluster_tree, cut_for

    if like is not None:
        known = encode(embedder, like, strict=strict, labelled=True)
        return cluster_tree(known.embedding, weighted=weighted).best_cut([str(label) for label in known.images.labels])
    matcher = embedder.matcher
    if matcher is None:
        raise ModelError("this model cannot tell probabilities", fix="give labelled pictures with --like")
    return cut_for(matcher.at(0.5), found.embedding, probability=probability)


def _agreement(found: Encoded, clusters: np.ndarray) -> dict[str, dict[str, float]] | None:
    """With the labels, where every picture has one and some share theirs."""
    from howsure.metrics import b_cubed, pairwise_f

    labels = [str(label) for label in found.images.labels]
    if None in found.images.labels or len(set(labels)) == len(labels):
        return None
    scores = {"B-cubed": b_cubed(labels, clusters), "pairwise": pairwise_f(labels, clusters)}
    return {name: {"F": one.f, "precision": one.precision, "recall": one.recall} for name, one in scores.items()}
