"""The picture of `howsure bench unseen-kinds`: 1,500 clothes in the plane, three kinds of them never seen in training.

    python benchmarks/unseen.py FILE [--structure kronecker]

The network of seed 0 is read from results/unseen-kinds/models, which the table makes; its posterior is fitted here, and
a hundred networks are drawn from it. Needs HOWSURE_DATA.
"""

import argparse
from pathlib import Path

import torch

from howsure.bench.experiments.mlp import DRAWS, UNSEEN, posterior, some
from howsure.bench.plan import table_named
from howsure.bench.report.ood_figure import unseen_figure
from howsure.data import load
from howsure.embedder import Embedder
from howsure.plots.map_files import map_file, write_map
from howsure.posteriors import laplace

MODEL = Path(__file__).parents[1] / "results" / "unseen-kinds" / "models" / "network-seed-0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a .png or .svg")
    parser.add_argument("--structure", default="kronecker", help="of the posterior")
    options = parser.parse_args()
    file, sources = map_file(options.file), table_named("unseen-kinds").data
    torch.set_num_threads(1)  # the same picture on every machine with these versions
    fitted = posterior(Embedder.load(MODEL), load(sources["training"]), structure=options.structure)
    shown = some(load(sources["test"]))
    figure = unseen_figure(
        laplace.drawn(fitted, DRAWS).encode(shown), [str(label) for label in shown.labels], unseen=UNSEEN
    )
    write_map(
        file, figure, alt="Clothes in the plane of a five-layer network, three kinds of them never seen in training"
    )


if __name__ == "__main__":
    main()
