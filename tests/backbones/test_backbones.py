import pytest
import torch
from torch import Tensor, nn

from howsure.backbones import BACKBONES, build_backbone, feature_count
from howsure.errors import InputError

NATURAL = {
    "lam-fashion": ((1, 28, 28), 9216),
    "lam-cifar": ((3, 32, 32), 1024),
    "n-digit": ((1, 28, 56), 120),
    "n-digit-deep": ((1, 28, 56), 84),
    "siamese": ((1, 28, 28), 256),
    "mlp": ((1, 28, 28), 64),
    "resnet": ((3, 64, 64), 128),
    "efficientnet-lite0": ((3, 96, 96), 1280),
    "efficientnet-lite1": ((3, 96, 96), 1280),
    "efficientnet-lite2": ((3, 96, 96), 1280),
}


def test_every_backbone_is_here() -> None:
    assert NATURAL.keys() == BACKBONES.keys()


@pytest.mark.parametrize("name", BACKBONES)
def test_natural_size_and_feature_count(name: str) -> None:
    shape, count = NATURAL[name]
    backbone = build_backbone(name, shape)
    pixels = torch.rand(2, *shape, requires_grad=True)
    features = backbone(pixels)
    assert features.shape == (2, count)
    assert feature_count(backbone, shape) == count
    features.sum().backward()
    assert all(p.grad is not None for p in backbone.parameters() if p.requires_grad)
    assert pixels.grad is not None


@pytest.mark.parametrize("name", BACKBONES)
def test_grey_and_colour(name: str) -> None:
    _, height, width = NATURAL[name][0]
    for channels in (1, 3):
        assert build_backbone(name, (channels, height, width))(torch.zeros(1, channels, height, width)).ndim == 2


@pytest.mark.parametrize(
    ("name", "flat"), [("siamese", 1024), ("n-digit", 16 * 7 * 14), ("mlp", 784)]
)  # what the first dense layer of the papers takes
def test_flattened_size(name: str, flat: int) -> None:
    dense = [layer for layer in build_backbone(name, NATURAL[name][0]).modules() if isinstance(layer, nn.Linear)]
    assert dense[0].in_features == flat


@pytest.mark.parametrize("size", [32, 48, 96])
def test_resnet_takes_any_picture_size(size: int) -> None:
    assert feature_count(build_backbone("resnet", (3, size, size)), (3, size, size)) == 128


def test_resnet_size() -> None:
    weights = sum(p.numel() for p in build_backbone("resnet", (3, 32, 32)).parameters())
    assert weights == pytest.approx(0.7e6, rel=0.05)


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="lam-fashion"):
        build_backbone("resnet50", (3, 32, 32))


def test_pictures_too_small() -> None:
    with pytest.raises(InputError, match="1 x 4 x 4") as caught:
        build_backbone("siamese", (1, 4, 4))
    assert caught.value.got
    assert "another picture size" in caught.value.fix


class _Tuple(nn.Module):
    def forward(self, pixels: Tensor) -> tuple[Tensor]:
        return (pixels.flatten(1),)


@pytest.mark.parametrize("network", [nn.Conv2d(1, 2, 3), _Tuple()], ids=["map", "tuple"])
def test_features_must_be_flat(network: nn.Module) -> None:
    with pytest.raises(InputError, match=r"expected \(N, M\)") as caught:
        feature_count(network, (1, 8, 8))
    assert "Flatten" in caught.value.fix


def test_asking_for_the_count_changes_no_mode_and_no_statistics() -> None:
    norm = nn.BatchNorm2d(1)
    network = nn.Sequential(norm, nn.Dropout(), nn.Flatten())
    norm.eval()  # frozen on purpose
    assert feature_count(network, (1, 8, 8)) == 64
    assert network.training
    assert network[1].training
    assert not norm.training
    assert norm.num_batches_tracked == 0
