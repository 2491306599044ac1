"""The five-layer network of the Laplace paper on Fashion-MNIST, three kinds of clothes never seen, one network or 100.

    python benchmarks/mlp.py [--quick] [--json] [--figure FILE [--structure kronecker]]

Every record is a file in results/mlp, models below it; only what is missing is made, one run at a time, on one thread.
`--quick` makes short runs in a temporary folder. `mlp` is the published network, `conv` the convolutional one of the
Laplacian metric learner with a head of two dimensions. All are judged on the same 1,500 test pictures, leave-one-out.
The paper does not say which kinds its table covers: bars are about all ten. Needs HOWSURE_DATA.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from form import Row, table

from howsure.bench.map_files import map_file, write_map
from howsure.bench.mlp import DEPTHS, DRAWS, UNSEEN, posterior, some, trained, trial
from howsure.bench.mlp_figure import unseen_figure
from howsure.bench.record import write_record
from howsure.data import ImageSet, load
from howsure.embedder import Embedder
from howsure.posteriors import laplace
from howsure.recipe import Recipe, recipe_for
from howsure.train import Epoch, Step

FOLDER = Path(__file__).parents[1] / "results" / "mlp"
LEARNED, TESTED = f"fashion-mnist:train@!{','.join(UNSEEN)}", "fashion-mnist:test"
NONE, ONE = "none", "one network"  # no posterior
NEAREST = "knn50_distance"  # what the places alone offer for free
NETWORKS: dict[str, dict[str, Any]] = {
    "mlp": {"backbone": "mlp", "epochs": 15},
    "conv": {"backbone": "lam-fashion", "epochs": 2},
}
# published: mean average precision at 1, 3, 5 and 7, one network and 100
PUBLISHED = {NONE: (0.5337, 0.6832, 0.7002, 0.7015), "diagonal": (0.5683, 0.7020, 0.7103, 0.6987)}


@dataclass(frozen=True)
class Run:
    network: str
    structure: str
    seed: int

    @property
    def model(self) -> str:
        return f"{self.network}-seed-{self.seed}"

    @property
    def name(self) -> str:
        return f"{self.network}-{self.structure}-seed-{self.seed}"


STRUCTURES = (NONE, "last-full", "diagonal", "kronecker")
MLP = [Run("mlp", how, seed) for seed in range(3) for how in STRUCTURES]
ONE_SEED = [Run("conv", NONE, 0), Run("conv", "last-low-rank", 0)]
Records = dict[Run, dict[str, Any]]


def recipe_of(asked: Run, *, quick: bool) -> Recipe:
    """As many classes in a batch as there are to learn; every setting was chosen on held-out training pictures."""
    base = recipe_for("fashion-mnist").but(dim=2, patience=15, schedule="one-cycle", seed=asked.seed)
    batches = {"classes_per_batch": 7, "pictures_per_class": 16, "loss_options": {"power": 1, "neg_margin": 1.0}}
    recipe = base.but(**batches, **NETWORKS[asked.network])
    return recipe.but(epochs=1) if quick else recipe


def network_of(asked: Run, folder: Path, images: ImageSet, *, quick: bool) -> Embedder:
    """Read, or trained first, with a record of its own."""
    path, file = folder / "models" / asked.model, folder / f"{asked.model}.json"
    if path.exists() and file.exists():
        return Embedder.load(path)
    recipe, clock = recipe_of(asked, quick=quick), [time.process_time()]

    def tell(event: Step | Epoch) -> None:
        if isinstance(event, Epoch):
            clock.append(time.process_time())

    found = trained(images, recipe, out=path, tell=tell)
    made = len(clock) - 1  # a run that was stopped and goes on only knows what its own epochs took
    spent = {"epochs": made, "cpu_seconds": round(clock[-1] - clock[0], 2)}
    recalls = [epoch.recall_at_1 for epoch in found.history]
    told = {"recipe": found.embedder.card["recipe"], "training": spent, "validation_recall_at_1": recalls}
    write_record(file, told)
    return found.embedder


def asked_for(asked: Run, folder: Path, images: ImageSet, *, quick: bool) -> Embedder:
    """The network, or its posterior: read, or fitted first."""
    if asked.structure == NONE:
        return network_of(asked, folder, images, quick=quick)
    path = folder / "models" / asked.name
    if not path.exists():
        network = network_of(asked, folder, images, quick=quick)
        posterior(network, images, structure=asked.structure).save(path)  # type: ignore[arg-type]
    return Embedder.load(path)


def make(asked: Run, folder: Path, images: ImageSet, shown: ImageSet, *, quick: bool) -> dict[str, Any]:
    """Judge, and write the record."""
    record = trial(asked_for(asked, folder, images, quick=quick), shown, unseen=UNSEEN)
    write_record(folder / f"{asked.name}.json", {**record, **asdict(asked)})
    return json.loads((folder / f"{asked.name}.json").read_text())


def results(asked: list[Run], folder: Path, *, quick: bool) -> Records:
    """The records of these runs; what is missing is made first."""
    files = {run: folder / f"{run.name}.json" for run in asked}
    found = {run: json.loads(file.read_text()) for run, file in files.items() if file.exists()}
    missing = [run for run in asked if run not in found]
    if missing:
        images, shown = load(LEARNED), some(load(TESTED))
        images = some(images, 6_000) if quick else images
    for done, run in enumerate(missing, 1):
        found[run] = make(run, folder, images, shown, quick=quick)
        print(f"{done} of {len(missing)} runs made: {run.name}", file=sys.stderr)
    return {run: found[run] for run in asked}


def grouped(found: Records) -> dict[str, list[dict[str, Any]]]:
    """The metrics of all seeds, by network and what was made of it."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run, record in found.items():
        name = f"{run.network}, {ONE if run.structure == NONE else run.structure}"
        groups[name].append(record["metrics"])
        for beside in ("features", "closed_form"):
            if beside in record:
                groups[f"{name}: its {beside.replace('_', ' ')}"].append(record[beside])
    return groups


def rows_of(found: Records, *, bars: bool) -> list[Row]:
    """Precision on all kinds beside the published; variance of the unseen beside the seen, and beside distances."""
    rows: list[Row] = []
    for name, metrics in grouped(found).items():
        published = PUBLISHED[NONE if ONE in name else "diagonal"]
        promised = bars and name.startswith("mlp") and ":" not in name
        for k, target in zip(DEPTHS, published, strict=True):
            values = [m["map"]["all"]["hits"][str(k)] for m in metrics]
            rows.append(reach(f"{name}: mAP@{k}, hits, all kinds{_spread(values)}", mean(values), target, bar=promised))
        if ONE in name:
            continue
        medians = (mean(m["variance"][kind]["median"] for m in metrics) for kind in ("unseen", "seen"))
        rows.append(reach(f"{name}: median variance, unseen beside seen", *medians))
        aurocs = (mean(m["scores"][f"ood_auroc_{score}"] for m in metrics) for score in ("uncertainty", NEAREST))
        rows.append(reach(f"{name}: AUROC of the variance, beside {NEAREST}", *aurocs))
    return rows


def reach(what: str, ours: float, target: float, *, bar: bool = False) -> Row:
    """A value that should be at least the target."""
    return Row(what, ours, target, ours / target, 1.0 if bar else None, ours >= target if bar else None)


def _spread(values: list[float]) -> str:
    return f" (± {stdev(values):.4f}, {len(values)} seeds)" if len(values) > 1 else " (one seed)"


def overview(found: Records) -> str:
    """Mean over seeds: both denominators, each kind; AUROC of the variance for all unseen kinds, and for each."""
    lines = [("", "kinds", *(f"{how}@{k}" for how in ("hits", "min_rk") for k in DEPTHS), "AUROC", *UNSEEN)]
    for name, metrics in grouped(found).items():
        scores = [_mean([m["scores"]["ood_auroc_uncertainty"] for m in metrics])]
        scores += [_mean([m["auroc_of_kind"][kind] for m in metrics]) for kind in UNSEEN]
        for kind in ("all", "seen", "unseen"):
            found_here = [m["map"][kind] for m in metrics]
            cells = [_mean([m[how][str(k)] for m in found_here]) for how in ("hits", "min_rk") for k in DEPTHS]
            lines.append((name, kind, *cells, *(scores if kind == "all" else [""] * len(scores))))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _mean(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{mean(known):.4f}" if known else ""


def measured(*, quick: bool) -> Records:
    if quick:
        with tempfile.TemporaryDirectory() as folder:
            return results([Run("mlp", how, 0) for how in (NONE, "last-full")], Path(folder), quick=True)
    return results([*MLP, *ONE_SEED], FOLDER, quick=False)


def draw(file: Path, structure: str) -> None:
    """What 100 networks of the first seed believe about the shown pictures."""
    images, shown = load(LEARNED), some(load(TESTED))
    many = laplace.drawn(asked_for(Run("mlp", structure, 0), FOLDER, images, quick=False), DRAWS)
    figure = unseen_figure(many.encode(shown), [str(label) for label in shown.labels], unseen=UNSEEN)
    write_map(
        file, figure, alt="Clothes in the plane of a five-layer network, three kinds of them never seen in training"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short run with the last layer alone")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--figure", type=Path, help="draw maps and variances into this file (.png, .svg) instead")
    parser.add_argument("--structure", default="kronecker", help="of the posterior in the figure")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the same numbers on every machine with these versions
    if options.figure:
        return draw(map_file(options.figure), options.structure)
    found = measured(quick=options.quick)
    rows = rows_of(found, bars=not options.quick)
    shown = f"{overview(found)}\n\n{table(rows)}"
    print(json.dumps([asdict(row) for row in rows], indent=1) if options.json else shown)
    sys.exit(any(row.holds is False for row in rows))


if __name__ == "__main__":
    main()
