"""laplace-torch beside the same training step and forward pass as ours; prints rows as JSON.

    python benchmarks/posteriors.py --peers

starts it, in an environment that has the package. Squared error on random targets stands in for the loss, since the
package takes no pairs. A fit is one batch of 64, the forward pass included. Left out, as too heavy for a small machine:
linearised predictions of whole networks with ASDL, curvlinops or Kronecker factors, and the diagonal with curvlinops.
"""

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import torch
from form import Row, at_most
from laplace import Laplace
from laplace.curvature.asdl import AsdlGGN
from laplace.curvature.backpack import BackPackGGN
from laplace.curvature.curvlinops import CurvlinopsGGN
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from posteriors import BATCH, DRAWS, NETS, Net, clocked, forward, training_step

BACKENDS: dict[str, Any] = {"curvlinops": CurvlinopsGGN, "BackPACK": BackPackGGN, "ASDL": AsdlGGN}


@dataclass(frozen=True)
class Case:
    subset: str
    structure: str
    backend: str
    predicts: bool = True  # within the memory and the minutes of a small machine

    @property
    def name(self) -> str:
        return f"{self.subset.replace('_', ' ')}, {self.structure}, {self.backend}"


CASES = {
    "lam-fashion": [
        Case("last_layer", "diag", "curvlinops"),
        Case("all", "diag", "BackPACK"),
        Case("all", "diag", "ASDL", predicts=False),
    ],
    "lam-cifar": [
        Case("last_layer", "diag", "curvlinops"),
        Case("last_layer", "kron", "curvlinops"),
        Case("all", "diag", "BackPACK"),
        Case("all", "kron", "BackPACK", predicts=False),
        Case("all", "kron", "ASDL", predicts=False),
        Case("all", "kron", "curvlinops", predicts=False),
    ],
}


def rows_of(net: Net, case: Case, times: int) -> list[Row]:
    plain, pixels = net.embedder(), net.pixels(BATCH)
    targets = torch.rand(BATCH, net.dim, generator=torch.Generator().manual_seed(2))
    loader = DataLoader(TensorDataset(pixels, targets), batch_size=BATCH)
    network = nn.Sequential(*plain.backbone, plain.head.location)
    network.to(memory_format=torch.contiguous_format)  # it takes views of all weights
    peer = Laplace(
        network,
        "regression",
        subset_of_weights=case.subset,
        hessian_structure=case.structure,
        backend=BACKENDS[case.backend],
    )
    who = f"{net.name}: laplace-torch, {case.name}"
    fit = clocked(lambda: peer.fit(loader), training_step(net), times)
    rows = [at_most(f"{who}, squared error, ms a batch of {BATCH}, beside a training step", *fit)]
    calls: dict[str, Callable[[], object]] = {}
    if case.predicts:
        calls["prediction, linearised"] = lambda: peer(pixels)
    if case.subset == "last_layer":
        calls[f"{DRAWS} draws"] = lambda: peer.predictive_samples(pixels, pred_type="nn", n_samples=DRAWS)
    for what, call in calls.items():
        spent = clocked(torch.no_grad()(call) if "draws" in what else call, forward(net.embedder(), pixels, 1), times)
        rows.append(at_most(f"{who}, {what}, batch {BATCH}, ms, beside a forward pass", *spent))
    return rows


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # theirs, about torch of today
    times, rows = int(sys.argv[1]), []
    for net in NETS:
        for case in CASES[net.backbone]:
            rows += rows_of(net, case, times)
            print(rows[-1].what, file=sys.stderr)
    names = ("laplace-torch", "backpack-for-pytorch", "curvlinops-for-pytorch", "asdfghjkl")
    print(json.dumps({"rows": [asdict(row) for row in rows], "versions": {name: version(name) for name in names}}))


if __name__ == "__main__":
    main()
