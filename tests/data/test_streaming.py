import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from data.pictures import folder_with_broken, noise
from howsure.data import ArrayImages, FileImages, InputSpec, load, pixels, stream, streaming
from howsure.errors import DataError, InputError

SPEC = InputSpec(8, 12, 3, (0.5,) * 3, (0.5,) * 3)


def memory_images(count: int) -> ArrayImages:
    array = np.random.default_rng(0).integers(0, 256, (count, 8, 12, 3), dtype=np.uint8)
    return ArrayImages("memory", tuple(map(str, range(count))), (None,) * count, array)


def test_exactly_the_broken_are_reported_and_the_rest_is_right(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    expected = folder_with_broken(root)
    assert len(expected) == 30
    images = load(root)
    assert len(images) == 300
    decoded = pixels(images, SPEC)
    assert {skip.id for skip in decoded.skipped} == set(expected)
    assert all(expected[skip.id] in skip.reason for skip in decoded.skipped)
    assert all(skip.path is not None and Path(skip.path).name == skip.id.split("/")[-1] for skip in decoded.skipped)
    assert decoded.images.ids == tuple(i for i in images.ids if i not in expected)
    for row, name in zip(decoded.pixels, decoded.images.ids, strict=True):
        seed = int(name.split("/")[-1].removesuffix(".png"))
        np.testing.assert_array_equal(row.numpy(), SPEC.pixels(noise(seed=seed)))


@pytest.mark.parametrize("batch", [1, 7, 16, 100, 1000])
def test_chunks_are_in_order_and_complete(batch: int) -> None:
    images = memory_images(100)
    chunks = list(stream(images, SPEC, batch=batch))
    assert [len(chunk.indices) for chunk in chunks[:-1]] == [batch] * (len(chunks) - 1)
    assert np.concatenate([chunk.indices for chunk in chunks]).tolist() == list(range(100))
    together = torch.cat([chunk.pixels for chunk in chunks])
    np.testing.assert_array_equal(together.numpy(), images.array.transpose(0, 3, 1, 2))


def test_a_block_of_broken_pictures_is_an_empty_chunk(tmp_path: Path) -> None:
    images = FileImages("gone", ("a", "b"), (None, None), (tmp_path / "a.png", tmp_path / "b.png"))
    (chunk,) = stream(images, SPEC)
    assert chunk.pixels.shape == (0, 3, 8, 12)
    assert [skip.id for skip in chunk.skipped] == ["a", "b"]


def test_strict_raises_at_the_first_broken_picture(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    first = min(folder_with_broken(root))
    seen = 0
    with pytest.raises(DataError) as caught:  # noqa: PT012 (the chunks before the error count)
        for chunk in stream(load(root), SPEC, batch=1, strict=True):
            seen += len(chunk.indices)
    assert first.removeprefix("photos/") in str(caught.value)
    assert load(root).ids[seen] == first
    with pytest.raises(DataError):
        pixels(load(root), SPEC, strict=True)


def test_leaving_early_stops_the_threads() -> None:
    chunks = stream(memory_images(2000), SPEC, batch=16)
    next(chunks)
    assert any(thread.name.startswith("howsure-decode") for thread in threading.enumerate())
    chunks.close()  # type: ignore[attr-defined]
    assert not any(thread.name.startswith("howsure-decode") for thread in threading.enumerate())


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="batch"):
        next(stream(memory_images(3), SPEC, batch=0))


def test_no_readable_picture_at_all_is_an_error(tmp_path: Path) -> None:
    images = FileImages("gone", ("a",), (None,), (tmp_path / "a.png",))
    with pytest.raises(DataError, match=r"gone: expected at least one readable picture, got none of 1; .*no such file"):
        pixels(images, SPEC)


def test_an_empty_set_gives_no_pixels() -> None:
    decoded = pixels(memory_images(3).subset([]), SPEC)
    assert decoded.pixels.shape == (0, 3, 8, 12)
    assert decoded.skipped == ()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_beyond_the_limit_pixels_live_in_a_file_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = memory_images(600)
    in_memory = pixels(images, SPEC)
    monkeypatch.setattr(streaming, "_IN_MEMORY", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    in_file = pixels(images, SPEC)
    assert torch.equal(in_memory.pixels, in_file.pixels)
    assert f" {tmp_path}/" in Path("/proc/self/maps").read_text()
    assert list(tmp_path.iterdir()) == []
    in_file.pixels[0] = 7  # the tensor can be written to, like any other
    assert in_file.pixels[0].unique().tolist() == [7]


def test_a_full_disk_is_an_error_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(streaming, "_IN_MEMORY", 1000)
    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(DataError, match="no space left on device; set TMPDIR"):
        pixels(memory_images(600), SPEC)
