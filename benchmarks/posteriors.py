"""What a posterior costs, on one thread, beside one training step or one deterministic forward pass.

    python benchmarks/posteriors.py [--quick] [--json] [--peers]

The networks are those of the Laplacian metric learner: Fashion-MNIST (9,216 features, D = 3) and CIFAR-10 (1,024
features, D = 16), with random weights. Fitting is counted beyond the forward pass, which any fit needs. Memory
is the growth of a fresh process that has loaded everything and seen one picture, beside the growth of another by
forward passes over the same batches; it is measured on Linux.

`--peers` adds rows of laplace-torch, installed into a folder in the user's cache; a run that is not quick then keeps
the whole table in results/posteriors.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from form import Row, alternately, at_most, run
from peers import environment, one_pair
from torch import Tensor

from howsure.bench.record import write_record
from howsure.data import InputSpec
from howsure.embedder import Embedder
from howsure.losses import build_loss
from howsure.posteriors import laplace
from howsure.posteriors.laplace import PairGraph, pair_curvature
from howsure.posteriors.laplace.base import through
from howsure.posteriors.laplace.last_layer_curvature import Diagonal, Full, LastLayer, LowRankRows
from howsure.posteriors.laplace.learned_variance import LearnedVariance
from howsure.posteriors.laplace.network_curvature import gradients

BATCH, PAIRS, DRAWS = 64, 10_000, 100
TIMED = 50  # of the pairs, where they are taken one at a time
RECORD = Path(__file__).parents[1] / "results" / "posteriors" / "speed.json"


@dataclass(frozen=True)
class Net:
    name: str
    backbone: str
    spec: InputSpec
    dim: int

    def embedder(self) -> Embedder:
        torch.manual_seed(0)
        return Embedder(self.backbone, "point", self.spec, dim=self.dim).eval()

    def pixels(self, count: int) -> Tensor:
        shape = (count, self.spec.channels, self.spec.height, self.spec.width)
        return torch.rand(shape, generator=torch.Generator().manual_seed(1))


NETS = [
    Net("Fashion-MNIST net", "lam-fashion", InputSpec(28, 28, 1, (0.0,), (1.0,)), 3),
    Net("CIFAR-10 net", "lam-cifar", InputSpec(32, 32, 3, (0.5,) * 3, (0.25,) * 3), 16),
]
LABELS = torch.arange(BATCH) % 8


def measure(quick: bool, *, peers: bool) -> list[Row]:
    torch.set_num_threads(1)
    times = 5 if quick else 15
    rows = [row for net in NETS for part in (fitting, predicting) for row in part(net, times)]
    if sys.platform == "linux" and not quick:
        rows += [row for net in NETS for row in memory(net)]
    if not peers:
        print("--peers adds rows of laplace-torch, in an environment of its own", file=sys.stderr)
        return rows
    worker = Path(environment.__file__).with_name("laplace_torch.py")
    found = environment.measured(worker, "1" if quick else "2")
    rows += [Row(**row) for row in found["rows"]]
    if not quick:
        write_record(RECORD, {"rows": [asdict(row) for row in rows], "peers": found["versions"], "threads": 1})
    return rows


def fitting(net: Net, times: int) -> list[Row]:
    embedder, step = net.embedder(), training_step(net)
    with torch.no_grad():
        _, features, z = through(embedder.head, "location", embedder.backbone(net.pixels(BATCH)))
    rng = np.random.default_rng(0)
    mined = [torch.from_numpy(rng.integers(0, BATCH, PAIRS // 2)) for _ in range(3)]
    width = features.shape[1]

    def add(gathered: LastLayer) -> Callable[[], None]:
        def four_batches() -> None:  # a sketch is compressed every few batches
            for _ in range(4):
                gathered.add(features, pair_curvature(z, PairGraph.from_mined(mined, BATCH), geometry="euclidean"))

        return four_batches

    structures: dict[str, LastLayer] = {"low rank 64": LowRankRows(width, 64), "diagonal": Diagonal(width, net.dim)}
    if width <= 1024:
        structures["full"] = Full(width)
    rows = []
    for name, gathered in structures.items():
        ours, reference = clocked(add(gathered), step, times)
        what = f"{net.name}: last layer, {name}, {PAIRS:,} pairs, ms a batch of {BATCH}, beside a training step"
        rows.append(at_most(what, ours / 4, reference, 0.15))
    published, reference = clocked(pair_by_pair(features, z, mined), step, max(3, times // 10))
    what = f"{net.name}: last layer, diagonal, one pair at a time as published, {PAIRS:,} pairs scaled from {TIMED}, ms"
    rows.append(at_most(f"{what}, beside a training step", published * PAIRS / TIMED, reference))
    ours, reference = clocked(whole_network(net), step, times)
    what = f"{net.name}: whole network, sampled diagonal, ms a draw, beside a training step"
    return [*rows, at_most(what, ours, reference, 1.2)]


def training_step(net: Net) -> Callable[[], None]:
    embedder, pixels, loss = net.embedder(), net.pixels(BATCH), build_loss("contrastive")
    optimizer = torch.optim.Adam(embedder.parameters(), lr=1e-6)

    def step() -> None:
        value = loss(embedder(pixels), LABELS)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()

    return step


def pair_by_pair(features: Tensor, z: Tensor, mined: list[Tensor]) -> Callable[[], Tensor]:
    anchor, positive, negative = (part[: TIMED // 2] for part in mined)
    pairs = torch.cat([torch.stack([anchor, positive], 1), torch.stack([anchor, negative], 1)])
    signs = torch.tensor([1.0, -1.0]).repeat_interleave(TIMED // 2)
    return lambda: one_pair.diagonal(features, z, pairs, signs)


def whole_network(net: Net) -> Callable[[], None]:
    embedder, pixels = net.embedder(), net.pixels(BATCH)
    parameters = list(embedder.parameters())
    pairs = PairGraph.from_labels(LABELS)

    def draw() -> None:
        _, _, z = through(embedder.head, "location", embedder.backbone(pixels))
        for found in gradients(z, parameters, pair_curvature(z, pairs).cotangents(1)):
            for gradient in found:
                gradient.square()

    return draw


def predicting(net: Net, times: int) -> list[Row]:
    plain = net.embedder()
    fitted = laplace.fit_posterior(plain, [(net.pixels(8 * BATCH), torch.arange(8 * BATCH) % 8)])
    drawn = laplace.drawn(fitted, DRAWS)
    rows = []
    for count, bar in ((1, 1.4), (64, 1.15), (256, 1.15)):
        pixels = net.pixels(count)
        repeat = max(1, 8 // count)  # many short turns: some fall between the interruptions of a busy machine
        ours, reference = clocked(forward(fitted, pixels, repeat), forward(plain, pixels, repeat), repeat * times)
        what = f"{net.name}: prediction in closed form, batch {count}, ms, beside a forward pass"
        rows.append(at_most(what, ours / repeat, reference / repeat, bar))
    pixels, repeat = net.pixels(1), 8
    ours, reference = clocked(
        forward(complete(fitted, net), pixels, repeat), forward(plain, pixels, repeat), repeat * times
    )
    what = f"{net.name}: prediction with novelty and ambiguity, batch 1, ms, beside a forward pass"
    rows.append(at_most(what, ours / repeat, reference / repeat))
    pixels = net.pixels(64)
    ours, reference = clocked(forward(drawn, pixels, 1), forward(plain, pixels, 1), times)
    what = f"{net.name}: {DRAWS} joint draws, batch 64, ms, beside a forward pass"
    return [*rows, at_most(what, ours, reference, 1.25)]


def complete(fitted: Embedder, net: Net) -> Embedder:
    """With all that `howsure laplace` adds; a width that has learned nothing costs as much as one that has."""
    novel = laplace.with_novelty(fitted, [(net.pixels(8 * BATCH), torch.arange(8 * BATCH) % 8)])
    return novel.with_head(novel.head.again(ambiguity=LearnedVariance(net.dim))).eval()


def forward(embedder: Embedder, pixels: Tensor, repeat: int) -> Callable[[], None]:
    @torch.no_grad()
    def call() -> None:
        for _ in range(repeat):
            embedder(pixels)

    return call


def memory(net: Net) -> list[Row]:
    """Peak megabytes of a fit of 8 batches of 64, and of a prediction of 256 pictures."""
    rows = []
    for job, sizes in {"fit": [BATCH] * 8, "prediction": [256]}.items():
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as fresh:
            ours, reference = (fresh.apply(grown, (net, sizes, what)) for what in (job, "forward"))
        what = f"{net.name}: peak memory of a {job}, {len(sizes)} x {sizes[0]} pictures, MB, beside forward passes"
        rows.append(at_most(what, ours, reference))
    return rows


def grown(net: Net, sizes: list[int], what: str) -> float:
    """Megabytes by which this process, new for the purpose, has grown at its peak; a prediction needs a small fit."""
    torch.set_num_threads(1)
    embedder = net.embedder()
    batches = [(net.pixels(size), torch.arange(size) % 8) for size in sizes]
    forward(embedder, net.pixels(1), 1)()
    before = peak_megabytes()
    if what != "forward":
        embedder = laplace.fit_posterior(embedder, batches if what == "fit" else [(net.pixels(8), torch.arange(8) % 2)])
    for pixels, _ in batches:
        forward(embedder, pixels, 1)()
    return peak_megabytes() - before


def peak_megabytes() -> float:
    """Of this program alone: what getrusage says begins with the size of the process that started it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def clocked(ours: Callable[[], object], reference: Callable[[], object], times: int) -> tuple[float, float]:
    seconds = alternately(ours, reference, times, clock=time.process_time)
    return 1e3 * seconds[0], 1e3 * seconds[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--peers", action="store_true")
    options, sys.argv[1:] = parser.parse_known_args()
    run(partial(measure, peers=options.peers))
