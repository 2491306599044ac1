"""Hedged instance embeddings on 2-digit MNIST in two dimensions, beside points trained alike and the published table.

    python benchmarks/hedged.py [--quick] [--json]

Results are kept in results/n-digit, models below it; only runs that are missing are made, two at a time, one thread
each, and a run that was stopped goes on from its last whole epoch. `--quick` makes short runs in a temporary folder.
Two networks: the published one, and one with another dense layer of 84. A bar is what the paper reached or gained.
"Corrupt" is the severity at which our points come nearest to the published .880: the published severity, the K of its
K nearest neighbours and the length of its training are not known. Test numbers are those seen in training. The last
rows compare training by quadrature with training by 8 x 8 samples, same network and same number of steps.
"""

import json
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from form import Row, run

from howsure import data
from howsure.bench.n_digit import SIDES, judge_all
from howsure.bench.record import write_record
from howsure.recipe import Recipe, recipe_for
from howsure.train import train

FOLDER = Path(__file__).parents[1] / "results" / "n-digit"
SPLITS = {"seen": "number-test-seen", "unseen": "number-test-unseen"}
POINT, ONE, TWO = "soft-contrastive", "hedged", "hedged-2"


@dataclass(frozen=True)
class Run:
    digits: int
    dim: int
    method: str
    seed: int
    variant: str = ""  # of the training, a key of VARIANTS

    @property
    def name(self) -> str:
        variant = f"-{self.variant}" if self.variant else ""
        return f"{self.digits}-digits-{self.dim}-D-{self.method}{variant}-seed-{self.seed}"


DEEP = {"backbone": "n-digit-deep", "epochs": 6}
VARIANTS: dict[str, dict[str, Any]] = {
    "deep": DEEP,
    "deep-samples": {**DEEP, "loss": "hedged", "loss_options": {"evaluation": "samples"}},
}
PUBLISHED_NETWORK = [Run(2, 2, method, seed) for seed in range(3) for method in (POINT, ONE)]
DEEP_NETWORK = [Run(2, 2, method, seed, "deep") for seed in range(3) for method in (POINT, ONE)]
ONE_SEED = [Run(2, 2, ONE, 0, "deep-samples"), Run(2, 2, TWO, 0, "deep")]

# published: verification AP clean, corrupt; kNN accuracy clean, corrupt
COLUMNS = ("verification_ap", "knn_accuracy")
PUBLISHED = {
    POINT: {"verification_ap": (0.987, 0.880), "knn_accuracy": (0.871, 0.583)},
    ONE: {"verification_ap": (0.989, 0.907), "knn_accuracy": (0.879, 0.760)},
    TWO: {"verification_ap": (0.990, 0.912), "knn_accuracy": (0.888, 0.757)},
}
CLEAN_AP, KENDALL = 0.987, 0.7


def recipe_of(asked: Run, *, quick: bool) -> Recipe:
    recipe = recipe_for(f"n-digit-mnist-{asked.digits}").but(method=asked.method, dim=asked.dim, seed=asked.seed)
    recipe = recipe.but(**VARIANTS.get(asked.variant, {}))
    return recipe.but(epochs=1) if quick else recipe


def make(asked: Run, folder: Path, quick: bool) -> None:
    """Train, judge, and write the record."""
    torch.set_num_threads(1)
    recipe = recipe_of(asked, quick=quick)
    wall, cpu = time.perf_counter(), time.process_time()
    images = data.load(f"n-digit-mnist-{asked.digits}")
    pictures = images.subset(range(0, len(images), 10)) if quick else images
    done = train(pictures, recipe, out=folder / "models" / asked.name, resume=True)
    spent = {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}
    judged = {name: judge_all(done.embedder, split, digits=asked.digits) for name, split in SPLITS.items()}
    record = {"recipe": recipe.model_dump(), "training": spent, "link": done.embedder.card["link"], "splits": judged}
    write_record(folder / f"{asked.name}.json", record)


def results(asked: list[Run], folder: Path, *, quick: bool) -> dict[Run, dict[str, Any]]:
    """The records of these runs; what is missing is made first."""
    missing = [run for run in asked if not (folder / f"{run.name}.json").exists()]
    with ProcessPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        waiting = [pool.submit(make, run, folder, quick) for run in missing]
        for done, future in enumerate(waiting, 1):
            future.result()
            print(f"{done} of {len(missing)} runs made", file=sys.stderr)
    return {run: json.loads((folder / f"{run.name}.json").read_text()) for run in asked}


Records = dict[Run, dict[str, Any]]


def over_seeds(found: Records, method: str, variant: str, condition: str, metric: str) -> list[float]:
    """One number of all seeds, on the numbers seen in training."""
    chosen = sorted((run for run in found if (run.method, run.variant) == (method, variant)), key=lambda run: run.seed)
    return [found[run]["splits"]["seen"][condition][metric] for run in chosen]


def severity(found: Records, variant: str) -> str:
    """The condition in which our points come nearest to the published points."""
    target = PUBLISHED[POINT]["verification_ap"][1]

    def off(condition: str) -> float:
        return abs(mean(over_seeds(found, POINT, variant, condition, "verification_ap")) - target)

    return min((f"corrupt-{side}" for side in SIDES), key=off)


def rows_of(found: Records, variant: str, *, bars: bool) -> list[Row]:
    """A network beside the published table; then what hedging gains over points."""
    corrupt = severity(found, variant)
    network = f"{variant or 'published'} network"
    methods = [method for method in (POINT, ONE, TWO) if over_seeds(found, method, variant, corrupt, COLUMNS[0])]
    rows = []
    for method in methods:
        for metric in COLUMNS:
            for place, condition in enumerate(("clean", corrupt)):
                values = over_seeds(found, method, variant, condition, metric)
                what = f"{network}, {method}: {metric}, {condition}{_spread(values)}"
                rows.append(reach(what, mean(values), PUBLISHED[method][metric][place]))
    if bars:
        clean = mean(over_seeds(found, ONE, variant, "clean", COLUMNS[0]))
        rows.append(reach(f"{network}, {ONE}: {COLUMNS[0]}, clean, to reach", clean, CLEAN_AP, bar=True))
    for metric in COLUMNS:
        ours, points = (over_seeds(found, method, variant, corrupt, metric) for method in (ONE, POINT))
        gain = [ours[seed] - points[seed] for seed in range(len(ours))]
        target = PUBLISHED[ONE][metric][1] - PUBLISHED[POINT][metric][1]
        what = f"{network}, {ONE}: gain over points in {metric}, {corrupt}{_spread(gain)}"
        rows.append(reach(what, mean(gain), target, bar=bars))
    taus = over_seeds(found, ONE, variant, corrupt, "kendall_ap")
    what = f"{network}, {ONE}: Kendall of self-mismatch with AP, {corrupt}{_spread(taus)}"
    return [*rows, reach(what, mean(taus), KENDALL, bar=bars)]


def reach(what: str, ours: float, target: float, *, bar: bool = False) -> Row:
    """A value that should be at least the target."""
    return Row(what, ours, target, ours / target, 1.0 if bar else None, ours >= target if bar else None)


def _spread(values: list[float]) -> str:
    return f" (± {stdev(values):.4f}, {len(values)} seeds)" if len(values) > 1 else " (one seed)"


def rival_rows(found: Records) -> list[Row]:
    """Quadrature beside 8 x 8 samples, same seed: what it bought, and processor seconds of training."""
    ours, rival = (found[Run(2, 2, ONE, 0, variant)] for variant in ("deep", "deep-samples"))
    rows = []
    for metric, condition in [
        ("verification_ap", "clean"),
        ("verification_ap", "corrupt-25"),
        ("kendall_ap", "corrupt-25"),
    ]:
        values = (record["splits"]["seen"][condition][metric] for record in (ours, rival))
        rows.append(reach(f"quadrature beside 8 x 8 samples: {metric}, {condition}", *values))
    seconds = (record["training"]["cpu_seconds"] for record in (ours, rival))
    return [*rows, reach("quadrature beside 8 x 8 samples: processor seconds", *seconds)]


def measure(quick: bool) -> list[Row]:
    if quick:
        with tempfile.TemporaryDirectory() as folder:
            found = results([Run(2, 2, method, 0) for method in (POINT, ONE)], Path(folder), quick=True)
            return rows_of(found, "", bars=False)
    found = results([*PUBLISHED_NETWORK, *DEEP_NETWORK, *ONE_SEED], FOLDER, quick=False)
    return [*rows_of(found, "", bars=True), *rows_of(found, "deep", bars=True), *rival_rows(found)]


if __name__ == "__main__":
    run(measure)
