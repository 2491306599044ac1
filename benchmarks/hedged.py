"""Hedged instance embeddings on N-digit MNIST, beside points trained alike and beside the published table.

    python benchmarks/hedged.py [--quick] [--json]

Results are kept in results/n-digit, models below it; only runs that are missing are made, two at a time, one thread
each, and a run that was stopped goes on from its last whole epoch. `--quick` makes short runs in a temporary folder.
A bar is what the paper reached or gained; "corrupt" is the severity at which our points come nearest to the published
ones, since the published severity is not known for certain. The last rows compare training by quadrature with training
by 8 x 8 samples.
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


VARIANTS: dict[str, dict[str, Any]] = {
    "samples": {"loss": "hedged", "loss_options": {"evaluation": "samples"}},
    "deep": {"backbone": "n-digit-deep"},
}
TABLE = [Run(2, 2, method, seed) for seed in range(3) for method in (POINT, ONE)]
TWO_MODES = [Run(2, 2, TWO, 0)]
RIVALS = [Run(2, 2, ONE, 0, "samples")]
DEEP = [Run(2, 2, method, 0, "deep") for method in (POINT, ONE)]
MORE = [Run(n, d, method, 0) for n, d in ((2, 3), (3, 2), (3, 3)) for method in (POINT, ONE)]

# published: verification AP clean, corrupt; kNN accuracy clean, corrupt
PUBLISHED = {
    (2, 2): {POINT: (0.987, 0.880, 0.871, 0.583), ONE: (0.989, 0.907, 0.879, 0.760), TWO: (0.990, 0.912, 0.888, 0.757)},
    (2, 3): {POINT: (0.996, 0.913, 0.942, 0.874), ONE: (0.996, 0.926, 0.953, 0.909), TWO: (0.996, 0.932, 0.939, 0.885)},
    (3, 2): {POINT: (0.978, 0.886, 0.554, 0.274), ONE: (0.981, 0.899, 0.591, 0.350), TWO: (0.976, 0.904, 0.540, 0.351)},
    (3, 3): {POINT: (0.987, 0.901, 0.795, 0.522), ONE: (0.989, 0.922, 0.770, 0.555), TWO: (0.991, 0.925, 0.766, 0.598)},
}


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


def over_seeds(found: dict[Run, dict[str, Any]], like: Run, condition: str, metric: str, split: str) -> list[float]:
    """One number of all seeds of a run."""
    chosen = [run for run in found if (run.digits, run.dim, run.method, run.variant) == _kind(like)]
    return [found[run]["splits"][split][condition][metric] for run in sorted(chosen, key=lambda run: run.seed)]


def _kind(run: Run) -> tuple[int, int, str, str]:
    return run.digits, run.dim, run.method, run.variant


def severity(found: dict[Run, dict[str, Any]], digits: int, dim: int) -> str:
    """The condition in which our points come nearest to the published points."""
    published = PUBLISHED[digits, dim][POINT][1]
    points = Run(digits, dim, POINT, 0)

    def off(condition: str) -> float:
        return abs(mean(over_seeds(found, points, condition, "verification_ap", "seen")) - published)

    return min((f"corrupt-{side}" for side in SIDES), key=off)


def rows_of(found: dict[Run, dict[str, Any]], digits: int, dim: int, *, bars: bool) -> list[Row]:
    """A setting beside its published row, on the numbers seen in training; then what hedging gains over points."""
    rows, corrupt = [], severity(found, digits, dim)
    columns = [
        (metric, condition) for metric in ("verification_ap", "knn_accuracy") for condition in ("clean", corrupt)
    ]
    ours: dict[tuple[str, int], float] = {}
    for method in (POINT, ONE, TWO):
        for place, (metric, condition) in enumerate(columns):
            values = over_seeds(found, Run(digits, dim, method, 0), condition, metric, "seen")
            ours[method, place] = mean(values)
            spread = f" (± {stdev(values):.3f}, {len(values)} seeds)" if len(values) > 1 else " (1 seed)"
            what = f"{digits} digits, {dim}-D, {method}: {metric}, {condition}{spread}"
            reached = bars and place == 0 and method != POINT
            published = PUBLISHED[digits, dim][method][place]
            rows.append(_reach(what, mean(values), 0.987 if reached else published, bar=reached))
    for method in (ONE, TWO):
        for place, (metric, condition) in enumerate(columns):
            published = PUBLISHED[digits, dim][method][place] - PUBLISHED[digits, dim][POINT][place]
            gain = ours[method, place] - ours[POINT, place]
            what = f"{digits} digits, {dim}-D, {method}: gain over points in {metric}, {condition}"
            rows.append(_reach(what, gain, published, bar=bars and place in (1, 3) and method == ONE))
        values = over_seeds(found, Run(digits, dim, method, 0), corrupt, "kendall_ap", "seen")
        what = f"{digits} digits, {dim}-D, {method}: Kendall of self-mismatch with AP, {corrupt}"
        rows.append(_reach(what, mean(values), 0.7, bar=bars and method == ONE))
    return rows


def _reach(what: str, ours: float, target: float, *, bar: bool) -> Row:
    """A value that should be at least the target."""
    return Row(
        what,
        ours,
        target,
        ours / target if target > 0 else float("inf"),
        1.0 if bar else None,
        ours >= target if bar else None,
    )


def rival_rows(found: dict[Run, dict[str, Any]]) -> list[Row]:
    """Quadrature beside 8 x 8 samples: processor time and what it bought."""
    rows = []
    for rival in ("samples", "published"):
        names = f"quadrature beside {'8 x 8 samples' if rival == 'samples' else '8 x 8 samples of the published bound'}"
        for metric, condition in (
            ("verification_ap", "clean"),
            ("verification_ap", "corrupt-18"),
            ("kendall_ap", "corrupt-18"),
        ):
            ours, theirs = (
                mean(over_seeds(found, Run(2, 2, ONE, 0, variant), condition, metric, "seen"))
                for variant in ("", rival)
            )
            rows.append(_reach(f"{names}: {metric}, {condition}", ours, theirs, bar=False))
        seconds = [
            mean(found[run]["training"]["cpu_seconds"] for run in found if run.variant == variant)
            for variant in ("", rival)
        ]
        rows.append(_reach(f"{names}: processor seconds of training", *seconds, bar=False))
    return rows


def measure(quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if quick else FOLDER
        if quick:
            found = results([Run(2, 2, method, 0) for method in (POINT, ONE, TWO)], folder, quick=True)
            return rows_of(found, 2, 2, bars=False)
        found = results([*TABLE, *RIVALS, *MORE], folder, quick=False)
    settings = sorted({(run.digits, run.dim) for run in found})
    tables = [row for n, d in settings for row in rows_of(found, n, d, bars=(n, d) == (2, 2))]
    return tables + rival_rows(found)


if __name__ == "__main__":
    run(measure)
