"""One small gallery for tests that only look, a copy of it for those that change something."""

import shutil
from pathlib import Path

import pytest

from web.browser import Browser, make_gallery


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with model, photos and gallery; leave it as it is."""
    return make_gallery(tmp_path_factory.mktemp("window")).parent


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
