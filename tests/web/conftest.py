"""One small gallery for tests that only look, a copy of it for those that change something."""

import shutil
from pathlib import Path

import pytest
import torch

from howsure import Gaussian
from web.browser import Browser, make_gallery


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with model, photos and gallery; leave it as it is."""
    return make_gallery(tmp_path_factory.mktemp("web")).parent


@pytest.fixture(scope="session")
def browser(made: Path):
    with Browser(made / "gallery") as opened:
        yield opened


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    """A gallery of your own; its model and photos are shared."""
    return Path(shutil.copytree(made / "gallery", tmp_path / "gallery"))


@pytest.fixture
def photo(made: Path) -> bytes:
    """One of the pictures that the gallery was made of: an eight."""
    return next((made / "photos" / "8").glob("*.png")).read_bytes()


@pytest.fixture(scope="module")
def clusters():
    """Ten items in each of ten clusters; the label of item 7 is that of the next cluster, item 21 is item 20 again."""
    generator = torch.Generator().manual_seed(0)
    centres = 10 * torch.eye(10).repeat_interleave(10, 0)
    location = centres + 0.1 * torch.randn(100, 10, generator=generator)
    location[21] = location[20]
    labels = [str(row // 10) for row in range(100)]
    labels[7] = "1"
    return Gaussian(location, torch.full((100, 1), 0.05)), labels
