"""How much the prior matters: AUROC of OOD pictures over six decades of prior precision.

    python benchmarks/prior.py [--quick] [--json]

Fashion-MNIST against MNIST, with the networks of `howsure bench fashion-mnist`, method point; what is missing of them
is trained. Curvature is gathered once for a structure, from the pictures that training saw. The decades lie around the
prior of greatest marginal likelihood, which `laplace.fit` takes if nobody says otherwise. Two scores: the posterior
variance before normalisation, where large is OOD, and novelty, its conformal p-value among the pictures that
training held out, where too large and too small are OOD alike.

A swing is the best AUROC of the decades less the worst, of the seed where it is widest. The bar is for `last-low-rank`,
the default structure at 9,216 features. Needs HOWSURE_DATA. A run that is not quick keeps each seed in
results/posteriors/prior.json; seeds that are there are read, not repeated.
"""

import json
from itertools import product
from pathlib import Path

import numpy as np
import torch
from form import Row, at_least, at_most, run
from torch import Tensor

from howsure.bench.plan import Cell, table_named
from howsure.bench.record import write_record
from howsure.bench.work import Work
from howsure.data import ImageSet, validation_split
from howsure.embedder import Embedder
from howsure.metrics import auroc
from howsure.posteriors.laplace.base import Subject, labelled_batches, pixel_batches
from howsure.posteriors.laplace.fit import positive_pairs
from howsure.posteriors.laplace.last_layer import LastLayerLaplace, gather_last_layer
from howsure.recipe import Recipe

RESULTS = Path(__file__).parents[1] / "results"
RECORD = RESULTS / "posteriors" / "prior.json"
DECADES = range(-3, 4)
SWING = 0.05  # how far the best and the worst AUROC may be apart
STRUCTURES = {"last-low-rank": 1.0, "last-diagonal": None}  # and the bar for what is beside it
SEEDS = range(5)
RANK = 64

Heads = dict[int, LastLayerLaplace]  # by decade
Found = dict[str, dict[str, list[float]]]  # of each structure and score, AUROC by decade; and the prior of the fit


def measure(quick: bool) -> list[Row]:
    torch.set_num_threads(1)
    if quick:
        return rows([measured(0, every=20)])
    kept: dict[str, Found] = json.loads(RECORD.read_text(encoding="utf-8"))["seeds"] if RECORD.exists() else {}
    for seed in SEEDS:
        if str(seed) not in kept:
            kept[str(seed)] = measured(seed)
            write_record(RECORD, {"decades": list(DECADES), "rank": RANK, "seeds": kept})
    return rows(list(kept.values()))


def measured(seed: int, *, every: int = 1) -> Found:
    """The scores of one network, from every so many pictures."""
    work = Work(table_named("fashion-mnist"), Cell("point", (seed,)), RESULTS / "fashion-mnist")
    training = work.pictures("training")
    embedder = work.embedder(training)
    share = Recipe.from_json(embedder.card["recipe"]).validation_share
    seen, held = (rows[::every] for rows in validation_split(training, share=share, seed=seed))
    heads, found = {}, {}
    for structure in STRUCTURES:
        chosen, heads[structure] = fitted(embedder, training.subset(seen), structure)
        found[structure] = {"prior": [chosen]}
    pictures = (
        thinned(work.pictures("test"), every),
        thinned(work.pictures("unfamiliar"), every),
        training.subset(held),
    )
    of_test, of_ood, reference = (variances(embedder, heads, images) for images in pictures)
    for structure, by_decade in heads.items():
        found[structure] |= scores(by_decade, reference[structure], of_test[structure], of_ood[structure])
    return found


def thinned(images: ImageSet, every: int) -> ImageSet:
    return images.subset(range(0, len(images), every))


def fitted(embedder: Embedder, pictures: ImageSet, structure: str) -> tuple[float, Heads]:
    """The prior of greatest marginal likelihood, and posteriors with that one and others around it."""
    gathered = gather_last_layer(
        Subject(embedder.backbone, embedder.head, "location"),
        labelled_batches(embedder, pictures),
        curvature=positive_pairs,
        temperature=1.0,
        structure=structure,
        rank=RANK,
    )
    (chosen,) = gathered.posterior(None).priors.values()
    return chosen, {decade: gathered.posterior({"location": chosen * 10.0**decade}).head for decade in DECADES}


@torch.no_grad()
def variances(embedder: Embedder, heads: dict[str, Heads], images: ImageSet) -> dict[str, Tensor]:
    """Of each structure, (decades, N) posterior variances before normalisation; every picture is seen once."""
    parts: dict[str, list[Tensor]] = {structure: [] for structure in heads}
    for pixels in pixel_batches(embedder, images):
        features = embedder.backbone(pixels)
        for structure, by_decade in heads.items():
            parts[structure].append(torch.stack([head.raw_variance(features) for head in by_decade.values()]))
    return {structure: torch.cat(found, 1) for structure, found in parts.items()}


def scores(heads: Heads, reference: Tensor, test: Tensor, ood: Tensor) -> dict[str, list[float]]:
    """AUROC by decade, from (decades, N) variances."""
    positive = np.repeat([False, True], [test.shape[1], ood.shape[1]])
    found: dict[str, list[float]] = {"variance": [], "novelty": []}
    for head, known, raw in zip(heads.values(), reference, torch.cat([test, ood], 1), strict=True):
        found["variance"].append(auroc(positive, raw))
        found["novelty"].append(auroc(positive, -head.again(reference=known.sort().values).typicality(raw)))
    return found


def rows(seeds: list[Found]) -> list[Row]:
    """A row a decade, the mean over seeds beside that at the prior of the fit, and the widest swing of any seed."""
    made = []
    for structure, score in product(STRUCTURES, ("variance", "novelty")):
        table = np.array([found[structure][score] for found in seeds])  # (seeds, decades)
        means = dict(zip(DECADES, table.mean(0).tolist(), strict=True))
        for decade, mean in means.items():
            what = f"{structure}: AUROC of {score}, prior 1e{decade:+d} of the fit's, beside the fit's"
            made.append(at_least(what, mean, means[0]))
        what = f"{structure}: swing of the AUROC of {score} over {len(means) - 1} decades, widest of {len(seeds)} seeds"
        swing, bar = float(np.ptp(table, axis=1).max()), STRUCTURES[structure]
        made.append(at_most(f"{what}, beside {SWING:g}", swing, SWING, bar))
    return made


if __name__ == "__main__":
    run(measure)
