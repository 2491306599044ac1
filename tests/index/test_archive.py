"""Galleries moved between engines, and files that are whole, older, newer or damaged."""

import json
import zipfile

import numpy as np
import pytest
import torch

from howsure import Gaussian, Point
from howsure.errors import GalleryError, InputError
from howsure.index import LocalIndex, connect, export_gallery, import_gallery
from howsure.index import archive as moving
from howsure.prior import Prior

NAMES = ["a", "nul\0inside", "", "ö"]


def points(*values):
    return Point(torch.tensor([[float(value)] for value in values]))


def contents(gallery):
    ids, embedding = gallery.embedding()
    return ids, gallery.items(ids), {name: array.tobytes() for name, array in embedding.arrays().items()}, gallery.about


@pytest.fixture
def file(tmp_path):
    with LocalIndex.create(tmp_path / "gallery", about={"model": "m"}) as index:
        index.add(NAMES, points(1, 2, 3, 4), labels=["x", None, "", "y"], metadata=[{"n": n} for n in range(4)])
        export_gallery(index, tmp_path / "gallery.npz")
    return tmp_path / "gallery.npz"


def embeddings(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Gaussian(torch.randn(count, 6, generator=generator), torch.rand(count, 6, generator=generator))


def test_a_gallery_moves_and_returns_bit_for_bit(urls, tmp_path, monkeypatch):
    monkeypatch.setattr(moving, "ROWS", 16)
    prior = Prior(torch.zeros(6), torch.ones(6) / 3)
    with LocalIndex.create(tmp_path / "first", about={"model": "m"}) as first:
        ids = [f"item {n}" for n in range(50)]
        first.add(ids, embeddings(50), labels=[None, "x"] * 25, metadata=[{"n": n, "name": "ö"} for n in range(50)])
        first.add(ids[:3], embeddings(3, seed=7))
        first.set_prior(prior)
        expected = contents(first)
        assert export_gallery(first, tmp_path / "out.npz") == 50
    steps = []
    with connect(urls(), create=True, about={"model": "m"}) as second:
        assert import_gallery(tmp_path / "out.npz", second, progress=steps.append) == 50
        assert contents(second) == expected
        assert second.prior.version == prior.version
        assert export_gallery(second, tmp_path / "back.npz") == 50
        changes = second.changes
        assert import_gallery(tmp_path / "out.npz", second) == 0
        assert second.changes == changes
    assert steps == [16, 32, 48, 50]
    names = ["manifest.json", "items.jsonl", "records.npy"]
    with zipfile.ZipFile(tmp_path / "out.npz") as out, zipfile.ZipFile(tmp_path / "back.npz") as back:
        assert [out.read(name) for name in names] == [back.read(name) for name in names]


def test_numpy_reads_an_export(file):
    with np.load(file) as arrays:
        assert arrays["records"]["location"].tolist() == [[1], [2], [3], [4]]
        assert json.loads(arrays["manifest.json"])["schema"] == 1


def test_an_import_that_was_interrupted_goes_on(file, tmp_path):
    with LocalIndex.create(tmp_path / "new") as index:
        index.add(NAMES[:2], points(1, 2), labels=["x", None], metadata=[{"n": 0}, {"n": 1}])
        assert import_gallery(file, index) == 2
        assert index.ids() == NAMES
        index.add([""], points(9))
        assert import_gallery(file, index) == 1
        assert index.get([""]).location.tolist() == [[3]]


def test_an_empty_gallery_moves_too(tmp_path):
    with LocalIndex.create(tmp_path / "empty", about={"x": 1}) as index, LocalIndex.create(tmp_path / "other") as other:
        assert export_gallery(index, tmp_path / "empty.npz") == 0
        assert import_gallery(tmp_path / "empty.npz", other) == 0
        assert len(other) == 0


def test_files_from_before_the_manifest_are_read(tmp_path):
    embedding = Gaussian(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0.5, 0.5], [1.0, 2.0]]))
    extra = {"mean": embedding.mean.numpy(), "variance": embedding.variance.numpy(), "uncertainty": np.zeros(2)}
    named = {"family": np.array("gaussian"), "ids": np.array(["a", "b"]), "labels": np.array(["x", ""])}
    np.savez(tmp_path / "old.npz", **embedding.arrays(), **named, **extra)
    with LocalIndex.create(tmp_path / "gallery") as index:
        assert import_gallery(tmp_path / "old.npz", index) == 2
        assert index.labels(["a", "b"]) == ["x", None]
        assert torch.equal(index.get(["a", "b"]).scale, embedding.scale)


def rewrite(file, **parts):
    with zipfile.ZipFile(file) as old:
        content = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(file, "w") as new:
        for name, data in content.items():
            new.writestr(name, parts.get(name.partition(".")[0], lambda data: data)(data))


def later(file):
    rewrite(file, manifest=lambda data: json.dumps(json.loads(data) | {"schema": 99}))
    return "expected version 1 of the format, or an older one, got version 99; update howsure"


def of_something_else(file):
    rewrite(file, manifest=lambda data: json.dumps(json.loads(data) | {"format": "other"}))
    return "the manifest of something else"


def fewer_items(file):
    rewrite(file, items=lambda data: data.split(b"\n", 1)[0] + b"\n")
    return "1 items of 4"


def fewer_records(file):
    rewrite(file, records=lambda data: data[:-4])
    return "records and items that do not fit"


def other_records(file):
    rewrite(file, manifest=lambda data: json.dumps(json.loads(data) | {"count": 5}))
    return "records that the manifest does not describe"


def truncated(file):
    file.write_bytes(file.read_bytes()[:-30])
    return "not a zip file"


def flipped(file):
    data = bytearray(file.read_bytes())
    data[data.index(np.float32(3).tobytes())] ^= 1
    file.write_bytes(data)
    return "checksum mismatch in records.npy"


def no_manifest(file):
    np.savez(file, x=np.zeros(3))
    return "no manifest"


@pytest.mark.parametrize(
    "damage", [later, of_something_else, fewer_items, fewer_records, other_records, truncated, flipped, no_manifest]
)
def test_what_is_wrong_with_a_file_is_said(file, tmp_path, damage):
    message = damage(file)
    with LocalIndex.create(tmp_path / "new") as index, pytest.raises(GalleryError, match=message):
        import_gallery(file, index)


def test_an_export_is_whole_or_absent(file, tmp_path, monkeypatch):
    before = file.read_bytes()
    with LocalIndex.open(tmp_path / "gallery", write=True) as index:
        with pytest.raises(InputError, match=r"a name that ends in .npz"):
            export_gallery(index, tmp_path / "x.zip")
        items = index.items

        def meanwhile(ids):
            index.remove(["a"])
            return items(ids[1:])

        monkeypatch.setattr(index, "items", meanwhile)
        with pytest.raises(GalleryError, match="expected a gallery at rest, got one that changed meanwhile"):
            export_gallery(index, file)
        monkeypatch.undo()
        (tmp_path / "in the way").write_text("")
        with pytest.raises(GalleryError, match="expected to be written"):
            export_gallery(index, tmp_path / "in the way" / "x.npz")
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gallery", "gallery.npz", "in the way"]
    with pytest.raises(GalleryError, match="expected a file, got none"), LocalIndex.create(tmp_path / "new") as index:
        import_gallery(tmp_path / "none.npz", index)
