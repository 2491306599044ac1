"""What a posterior costs, on one thread, beside one training step or one deterministic forward pass.

The networks are those of the Laplacian metric learner: Fashion-MNIST (9,216 features, D = 3) and CIFAR-10 (1,024
features, D = 16), with random weights. Fitting is counted beyond the forward pass, which any fit needs.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from form import Row, alternately, at_most, run
from torch import Tensor

from howsure.data import InputSpec
from howsure.embedder import Embedder
from howsure.heads.last_layer import through
from howsure.losses import build_loss
from howsure.posteriors import Pairs, laplace, pair_curvature
from howsure.posteriors.accumulate import Diagonal, Full, LastLayer, LowRankRows
from howsure.posteriors.network import sampled_diagonal

BATCH, PAIRS, DRAWS = 64, 10_000, 100


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


def measure(quick: bool) -> list[Row]:
    torch.set_num_threads(1)
    times = 5 if quick else 30
    return [row for net in NETS for part in (fitting, predicting) for row in part(net, times)]


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
                gathered.add(features, pair_curvature(z, Pairs.mined(mined, BATCH), geometry="euclidean"))

        return four_batches

    structures: dict[str, LastLayer] = {"low rank 64": LowRankRows(width, 64), "diagonal": Diagonal(width, net.dim)}
    if width <= 1024:
        structures["full"] = Full(width)
    rows = []
    for name, gathered in structures.items():
        ours, reference = clocked(add(gathered), step, times)
        what = f"{net.name}: last layer, {name}, {PAIRS:,} pairs, ms a batch of {BATCH}, beside a training step"
        rows.append(at_most(what, ours / 4, reference, 0.15))
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


def whole_network(net: Net) -> Callable[[], None]:
    embedder, pixels = net.embedder(), net.pixels(BATCH)
    parameters = list(embedder.parameters())
    pairs = Pairs.of_classes(LABELS)

    def draw() -> None:
        _, _, z = through(embedder.head, "location", embedder.backbone(pixels))
        sampled_diagonal(z, parameters, pair_curvature(z, pairs))

    return draw


def predicting(net: Net, times: int) -> list[Row]:
    plain = net.embedder()
    fitted = laplace.fit(plain, [(net.pixels(8 * BATCH), torch.arange(8 * BATCH) % 8)])
    drawn = laplace.drawn(fitted, DRAWS)
    rows = []
    for count, bar in ((1, 1.4), (64, 1.15), (256, 1.15)):
        pixels = net.pixels(count)
        repeat = max(1, 64 // count)
        ours, reference = clocked(forward(fitted, pixels, repeat), forward(plain, pixels, repeat), times)
        what = f"{net.name}: prediction in closed form, batch {count}, ms, beside a forward pass"
        rows.append(at_most(what, ours / repeat, reference / repeat, bar))
    pixels = net.pixels(64)
    ours, reference = clocked(forward(drawn, pixels, 1), forward(plain, pixels, 1), times)
    what = f"{net.name}: {DRAWS} joint draws, batch 64, ms, beside a forward pass"
    return [*rows, at_most(what, ours, reference, 1.25)]


def forward(embedder: Embedder, pixels: Tensor, repeat: int) -> Callable[[], None]:
    @torch.no_grad()
    def call() -> None:
        for _ in range(repeat):
            embedder(pixels)

    return call


def clocked(ours: Callable[[], None], reference: Callable[[], None], times: int) -> tuple[float, float]:
    seconds = alternately(ours, reference, times, clock=time.process_time)
    return 1e3 * seconds[0], 1e3 * seconds[1]


if __name__ == "__main__":
    run(measure)
