"""howsure gate: the expensive model only where the cheap one is unsure."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from howsure.cli.console import Json, Strict, print_json
from howsure.cli.model import encode, load_model
from howsure.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from howsure.data import ImageSet
    from howsure.tasks.gating import GateCurve

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)


@dataclass(frozen=True, eq=False)
class _Run:
    """One model on the pictures: where the nearest other is of the same class, uncertainty scores, and the cost."""

    ids: tuple[str, ...]
    right: np.ndarray
    scores: dict[str, np.ndarray]
    seconds: float  # a picture


def gate(
    cheap: Annotated[Path, typer.Argument(metavar="CHEAP", help="The model that sees every picture.")],
    expensive: Annotated[Path, typer.Argument(metavar="EXPENSIVE", help="The model that is asked where it is unsure.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled pictures that neither was trained on.")],
    share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The share of pictures that the expensive model may see.")
    ] = 0.2,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Measure a cascade of two models: accuracy against cost, and where to set the gate.

    Right means: the nearest other picture is of the same class. One half of the pictures sets the gate, the other
    judges it. Uncertainty is compared with the distance to the nearest and with asking at random.
    """
    import numpy as np

    from howsure import data as pictures
    from howsure.tasks.gating import gate_curve, gate_for

    images = pictures.load(data)
    first, second = (_run(path, images, strict=strict) for path in (cheap, expensive))
    if first.ids != second.ids:
        raise InputError(f"pictures of {images.name}", expected="all readable by both models", got="some by one alone")
    judged = np.random.default_rng(0).permutation(len(first.ids)) % 2 == 1
    curves = {
        name: gate_curve(score[judged], first.right[judged], second.right[judged])
        for name, score in first.scores.items()
    }
    by, score = next(iter(first.scores.items()))
    threshold = gate_for(score[~judged], share=share)
    asked = score > threshold
    right = np.where(asked, second.right, first.right)[judged]
    seconds = {"cheap": first.seconds, "expensive": second.seconds}
    met = {"by": by, "doubt": threshold, "share": float(asked[judged].mean()), "accuracy": float(right.mean())}
    if as_json:
        table = {name: {str(at): curve.at(at) for at in SHARES} for name, curve in curves.items()}
        gains = {name: curve.gain for name, curve in curves.items()}
        print_json({"gate": met, "accuracy": table, "gain": gains, "seconds": seconds, "pictures": int(judged.sum())})
        return
    _print_curves(curves, seconds)
    print(f"gate: ask where {by} > {threshold:.6g}: a share of {met['share']:.3f}, accuracy {met['accuracy']:.4f}")


def _run(path: Path, images: ImageSet, *, strict: bool) -> _Run:
    import numpy as np

    from howsure.embeddings import point_estimates
    from howsure.neighbours import neighbours

    embedder = load_model(path)
    began = time.perf_counter()
    found = encode(embedder, images, strict=strict, labelled=True)
    seconds = (time.perf_counter() - began) / len(images)
    labels, bare = np.array(found.images.labels, dtype=str), point_estimates(found.embedding)
    near = neighbours(bare, bare, leave_one_out=True, depth=1)
    scores = {"uncertainty": found.embedding.uncertainty.double().numpy(), "distance": near.distances[:, 0]}
    varying = {name: score for name, score in scores.items() if np.ptp(score) > 0}
    return _Run(found.images.ids, labels[near.positions[:, 0]] == labels, varying, seconds)


def _print_curves(curves: dict[str, GateCurve], seconds: dict[str, float]) -> None:
    """A line a share: what a picture costs, and the accuracy by each score and at random."""
    print("share  ms a picture", *(f"{name:>12}" for name in (*curves, "at random")))
    ends = next(iter(curves.values()))
    for at in SHARES:
        cost = 1_000 * (seconds["cheap"] + at * seconds["expensive"])
        straight = (1 - at) * ends.at(0) + at * ends.at(1)
        values = (*(curve.at(at) for curve in curves.values()), straight)
        print(f"{at:5.2f}  {cost:12.2f}", *(f"{value:12.4f}" for value in values))
