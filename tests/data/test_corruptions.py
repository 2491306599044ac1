import numpy as np
import pytest
from PIL import Image

from howsure.data import CORRUPTIONS, corrupt
from howsure.errors import InputError


def corner(width: int = 32, height: int = 24, mode: str = "L") -> Image.Image:
    pixels = np.zeros((height, width), np.uint8)
    pixels[:, width // 2 :] = pixels[: height // 2] = 255
    return Image.fromarray(pixels).convert(mode)


def change(image: Image.Image, kind: str, severity: int) -> float:
    """Mean pixel difference over many seeds: one occlusion may hit what it looks like."""
    before = np.asarray(image, float)
    after = [corrupt(image, kind, severity=severity, rng=np.random.default_rng(seed)) for seed in range(40)]
    return float(np.mean([np.abs(np.asarray(one, float) - before).mean() for one in after]))


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_the_same_generator_gives_the_same_picture(kind: str) -> None:
    first, second = (corrupt(corner(), kind, severity=3, rng=np.random.default_rng(7)).tobytes() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("kind", ["noise", "occlusion"])
def test_another_generator_gives_another_picture(kind: str) -> None:
    made = {corrupt(corner(), kind, severity=3, rng=np.random.default_rng(seed)).tobytes() for seed in range(5)}
    assert len(made) == 5


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_every_step_of_severity_changes_more(kind: str) -> None:
    changes = [change(corner(), kind, severity) for severity in range(1, 6)]
    assert changes[0] > 0
    assert np.all(np.diff(changes) > 0)


@pytest.mark.parametrize("kind", CORRUPTIONS)
@pytest.mark.parametrize("size", [(1, 1), (8, 8), (3, 50), (200, 31)])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "I;16"])
def test_any_size_and_mode(kind: str, size: tuple[int, int], mode: str) -> None:
    image = Image.new("I;16", size, 30_000) if mode == "I;16" else corner(*size, mode="RGB").convert(mode)
    before = image.tobytes()
    made = corrupt(image, kind, severity=5, rng=np.random.default_rng(0))
    assert made.size == size
    assert made.mode in ("L", "RGB")
    assert image.tobytes() == before


def test_an_occlusion_hides_the_stated_share() -> None:
    white = Image.new("L", (100, 100), 255)
    made = np.asarray(corrupt(white, "occlusion", severity=5, rng=np.random.default_rng(1)))
    assert (made != 255).mean() == pytest.approx(0.42, abs=0.01)


def test_noise_has_the_stated_spread() -> None:
    grey = Image.new("L", (200, 200), 128)
    made = np.asarray(corrupt(grey, "noise", severity=1, rng=np.random.default_rng(1)), float)
    assert made.std() == pytest.approx(0.08 * 255, rel=0.03)


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match=r"one of noise, blur, occlusion.*did you mean blur"):
        corrupt(corner(), "blurr", severity=1, rng=np.random.default_rng(0))
    for severity in (0, 6, 2.5):
        with pytest.raises(InputError, match="from 1 to 5"):
            corrupt(corner(), "blur", severity=severity, rng=np.random.default_rng(0))  # type: ignore[arg-type]
