"""Any network, any pytorch-metric-learning loss and miner: train it, use it, save it, load it back.

    python examples/your_own_network.py [FOLDER]

Your module maps (N, C, H, W) pixels to (N, M) features; howsure adds the head. FOLDER is where the model goes.
"""

import sys
import tempfile
from pathlib import Path

import torch
from pytorch_metric_learning import losses, miners
from torch import nn

from howsure import Embedder, InputSpec, data
from howsure.data import BalancedBatches
from howsure.losses import OnMeans
from howsure.metrics import rank, recall_at_k


def network() -> nn.Module:
    """What you already have."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
    )  # fmt: skip


def main(folder: Path) -> float:
    """Train for a few epochs; the share of test digits whose nearest other test digit is of their class."""
    torch.manual_seed(0)
    spec = InputSpec(height=8, width=8, channels=1, mean=(0.0,), std=(1.0,))
    embedder = Embedder(network(), "point", spec, dim=16)
    loss = OnMeans(losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner())

    images = data.load("digits:train")
    pixels = data.pixels(images, spec).pixels
    labels = torch.tensor([images.classes.index(label) for label in images.labels if label is not None])
    batches = BalancedBatches(labels.numpy(), classes=10, per_class=12, seed=0)
    optimizer = torch.optim.Adam(embedder.parameters(), lr=3e-3)
    for epoch in range(8):
        for rows in batches.epoch(epoch):
            value = loss(embedder(spec.normalise(pixels[rows])), labels[rows])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()

    embedder.save(folder)
    restored = Embedder.load(folder, backbone=network())  # weights come from the folder, the module from you

    test = data.load("digits:test")
    embedding = restored.encode(test)
    nearest = rank(torch.cdist(embedding.mean, embedding.mean), 1, exclude=range(len(test)))
    relevant = [[test.labels[int(row)] == label] for (row,), label in zip(nearest, test.labels, strict=True)]
    return recall_at_k(relevant, 1)


if __name__ == "__main__":
    print(f"recall@1 {main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())):.3f}")
