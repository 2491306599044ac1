import numpy as np
import pytest
from PIL import Image

from howsure import data
from howsure.data import CORRUPTIONS, ArrayImages, corrupt
from howsure.data.corruptions import CONTRAST, KINDS, Corruption, corrupted_set, corruption_named
from howsure.errors import InputError


def corner(width: int = 32, height: int = 24, mode: str = "L") -> Image.Image:
    pixels = np.zeros((height, width), np.uint8)
    pixels[:, width // 2 :] = pixels[: height // 2] = 255
    return Image.fromarray(pixels).convert(mode)


def scene(seed: int) -> Image.Image:
    """Waves in random directions, and an edge: fine and coarse detail, as a photograph has."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:30, :40]
    waves = [rng.uniform(20, 60) * np.sin(rng.uniform(-0.8, 0.8) * x + rng.uniform(-0.8, 0.8) * y) for _ in range(4)]
    edge = 40 * (x * rng.normal() + y * rng.normal() > 0)
    return Image.fromarray(np.clip(100 + sum(waves) + edge, 0, 255).astype(np.uint8))


def change(kind: str, severity: int) -> float:
    """Mean pixel difference over many pictures: one alone may happen to suit a corruption."""
    changes = []
    for seed in range(40):
        before = scene(seed)
        after = corrupt(before, kind, severity=severity, rng=np.random.default_rng(seed))
        changes.append(np.abs(np.asarray(after, float) - np.asarray(before, float)).mean())
    return float(np.mean(changes))


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
    changes = [change(kind, severity) for severity in range(1, 6)]
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


@pytest.mark.parametrize("severity", range(1, 6))
def test_contrast_leaves_the_mean_and_the_stated_share_of_the_spread(severity: int) -> None:
    before = np.asarray(scene(0), float)
    after = np.asarray(corrupt(scene(0), "contrast", severity=severity, rng=np.random.default_rng(0)), float)
    assert after.mean() == pytest.approx(before.mean(), abs=0.5)
    assert after.std() / before.std() == pytest.approx(CONTRAST[severity - 1], abs=0.01)


def test_resolution_forgets_detail_and_keeps_the_mean() -> None:
    board = Image.fromarray((255 * (np.indices((40, 40)).sum(0) % 2)).astype(np.uint8))
    made = np.asarray(corrupt(board, "resolution", severity=1, rng=np.random.default_rng(0)), float)
    np.testing.assert_allclose(made, 127.5, atol=1)  # each pixel of the small copy saw two white and two black ones


def test_jpeg_works_in_blocks() -> None:
    """At the worst quality an 8 x 8 block of a slope keeps little more than its mean."""
    slope = Image.fromarray(np.tile(np.arange(0, 256, 4, dtype=np.uint8), (64, 1)))
    made = np.asarray(corrupt(slope, "jpeg", severity=5, rng=np.random.default_rng(0)), float)
    within, across = np.abs(np.diff(made[0]))[np.arange(63) % 8 != 7].mean(), np.abs(np.diff(made[0]))[7::8].mean()
    assert across > 4 > within


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match=r"one of noise, blur, occlusion.*did you mean blur"):
        corrupt(corner(), "blurr", severity=1, rng=np.random.default_rng(0))
    for severity in (0, 6, 2.5):
        with pytest.raises(InputError, match="from 1 to 5"):
            corrupt(corner(), "blur", severity=severity, rng=np.random.default_rng(0))  # type: ignore[arg-type]


DIGITS = ArrayImages(
    "two", ("a", "b", "c"), ("07", "12", None), np.random.default_rng(0).integers(1, 256, (3, 28, 56), np.uint8)
)


def pixels(images: data.ImageSet, i: int) -> np.ndarray:
    return np.asarray(images.image(i))


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_get_worse_and_stay_who_they_are(kind):
    slight, severe = (corrupted_set(DIGITS, Corruption(kind, severity)) for severity in (1, 5))
    assert (severe.ids, severe.labels, severe.paths) == (DIGITS.ids, DIGITS.labels, DIGITS.paths)
    assert severe.name == f"two with {kind}:5"

    def change(images: data.ImageSet) -> float:
        return float(np.mean([np.abs(pixels(images, i) - pixels(DIGITS, i).astype(float)).mean() for i in range(3)]))

    assert 0 < change(slight) < change(severe)
    assert pixels(severe, 0).shape == (28, 56)


@pytest.mark.parametrize("kind", ["noise", "occlusion", "digit-occlusion"])
def test_chance_depends_on_seed_and_id_alone(kind):
    first, again, other = (corrupted_set(DIGITS, Corruption(kind, 4), seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(pixels(first, 2), pixels(again, 2))
    np.testing.assert_array_equal(pixels(first.subset([2, 0]), 0), pixels(first, 2))
    assert (pixels(first, 2) != pixels(other, 2)).any()
    same = corrupted_set(ArrayImages("same", ("a", "b"), (None, None), DIGITS.array[[0, 0]]), Corruption(kind, 4))
    assert (pixels(same, 0) != pixels(same, 1)).any()


def test_digit_occlusion_blackens_one_square_in_each_digit():
    white = ArrayImages("white", tuple(map(str, range(20))), (None,) * 20, np.full((20, 28, 56), 255, np.uint8))
    for i in range(20):
        for digit in np.split(pixels(corrupted_set(white, Corruption("digit-occlusion", 5)), i), 2, axis=1):
            rows, columns = (digit == 0).any(1).sum(), (digit == 0).any(0).sum()
            assert rows == columns
            assert (digit == 0).sum() == rows * columns
    with pytest.raises(InputError, match="grey digits, 28 high"):
        corrupted_set(data.load("digits"), Corruption("digit-occlusion", 5)).image(0)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("blurr:3", "did you mean blur"),
        ("magic:3", "for example blur:3"),
        ("", "one of noise, blur"),
        ("blur", "got no severity; for example blur:3"),
        ("blur:0", "got severity '0'"),
        ("blur:6", "from 1 to 5"),
        ("blur:3:1", "got severity '3:1'"),
    ],
)
def test_a_name_that_means_nothing_is_refused(text, word):
    with pytest.raises(InputError, match=word):
        corruption_named(text)
