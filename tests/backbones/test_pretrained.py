"""Weights that others trained: found without importing their package, checked before they are read."""

import hashlib
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn

from howsure.backbones import BACKBONES, PRETRAINED, build_backbone, feature_count, start_backbone
from howsure.backbones.pretrained import REFERENCES, Pretrained
from howsure.errors import InputError
from howsure.recipe import SHIPPED, read_recipe

ENTRIES = pytest.mark.parametrize("entry", PRETRAINED.values(), ids=PRETRAINED)


def needs(entry: Pretrained) -> None:
    if not entry.installed:
        pytest.skip(f"{entry.package} is not installed")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretrained:
    """An entry whose package is installed in a folder of this test, and raises where it is imported."""
    (tmp_path / "others_model").mkdir()
    (tmp_path / "others_model" / "__init__.py").write_text("raise SystemExit('imported')")
    about = tmp_path / "others_model-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: others-model\nVersion: 0.1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    linear = nn.Linear(3, 2)
    file = tmp_path / "others_model" / "weights.pth"
    torch.save({"a": linear.weight, "b": linear.bias, "_fc.weight": torch.zeros(1)}, file)
    return replace(
        next(iter(PRETRAINED.values())),
        network=lambda channels: nn.Linear(channels, 2),
        package="others-model",
        file="others_model/weights.pth",
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
    )


@ENTRIES
def test_an_entry_is_a_backbone_and_says_what_it_needs(entry: Pretrained) -> None:
    assert BACKBONES[entry.name] is entry.network
    shape = (3, entry.side, entry.side)
    assert feature_count(build_backbone(entry.name, shape), shape) == entry.features
    assert entry.recall.keys() <= REFERENCES.keys()
    assert len(entry.sha256) == 64
    assert entry.install == f"pip install {entry.package}=={entry.version}"
    assert entry.card["licence"]


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("pretrained*.toml")), ids=lambda file: file.stem)
def test_recipes_give_a_network_the_pictures_it_was_trained_on(file: Path) -> None:
    recipe = read_recipe(file)
    entry = PRETRAINED[recipe.backbone]
    assert (recipe.height, recipe.width, recipe.channels) == (entry.side, entry.side, 3)
    assert recipe.pixel_mean == pytest.approx(entry.mean)
    assert recipe.pixel_std == pytest.approx(entry.std)


@ENTRIES
def test_features_are_those_of_the_publishers_network(entry: Pretrained) -> None:
    needs(entry)
    if find_spec("efficientnet_lite_pytorch") is None:
        pytest.skip("efficientnet-lite-pytorch is not installed")
    from efficientnet_lite_pytorch import EfficientNet

    theirs = EfficientNet.from_name(entry.name)
    theirs.load_state_dict(torch.load(entry.require(), weights_only=True))
    pixels = torch.randn(2, 3, entry.side, entry.side, generator=torch.Generator().manual_seed(0))
    ours = build_backbone(entry.name, (3, entry.side, entry.side))
    start_backbone(entry.name, ours)
    with torch.no_grad():
        expected = theirs.eval().extract_features(pixels).mean((2, 3))
        torch.testing.assert_close(ours(pixels), expected, rtol=1e-3, atol=1e-4)


def test_weights_come_from_the_file_and_nothing_of_the_package_runs(elsewhere: Pretrained) -> None:
    assert elsewhere.installed
    assert elsewhere.network(3).load_state_dict(elsewhere.state())
    assert "others_model" not in sys.modules


def test_a_changed_file_is_refused_before_it_is_read(elsewhere: Pretrained) -> None:
    elsewhere.require().write_bytes(b"something else")
    with pytest.raises(InputError, match=f"SHA-256 {elsewhere.sha256}") as caught:
        elsewhere.state()
    assert "pip install others-model==0.1.0" in caught.value.fix


def test_a_missing_package_is_one_pip_line(elsewhere: Pretrained) -> None:
    missing = replace(elsewhere, package="nobody-has-this")
    assert not missing.installed
    with pytest.raises(InputError, match="no such package") as caught:
        missing.state()
    assert caught.value.fix == "pip install nobody-has-this==0.1.0"
