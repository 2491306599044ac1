"""What is kept besides embeddings, who may open what, and the errors when something is wrong."""

import json
import re
import sqlite3
import threading

import numpy as np
import pytest
import torch

from howsure import Point
from howsure.errors import GalleryError, GalleryLockedError, InputError
from howsure.index import Item, LocalIndex
from howsure.index.local import index as index_module
from howsure.index.local.replica import Replica


def points(*values):
    return Point(torch.tensor([[float(value)] for value in values]))


ODD_IDS = [
    "",
    " ",
    "ö/ü 漢字 🐈",
    "line\nbreak",
    "nul\0inside",
    "nul\0other",
    "'; DROP TABLE items; --",
    "x" * 100_000,
    "é",
    "e\u0301",
]


def test_odd_ids_are_ids_like_others(path):
    with LocalIndex.create(path) as index:
        index.add(ODD_IDS, points(*range(len(ODD_IDS))), labels=ODD_IDS)
    with LocalIndex.open(path) as index:
        assert index.ids() == ODD_IDS == index.labels(ODD_IDS)
        for number, identity in enumerate(ODD_IDS):
            assert identity in index
            assert index.search(points(number), 1).ids.tolist() == [[identity]]
            assert index.get([identity]).location.tolist() == [[number]]
    with LocalIndex.open(path, write=True) as index:
        assert index.remove(ODD_IDS[:5]) == 5
        assert index.ids() == ODD_IDS[5:]
        assert "nul\0inside" not in index
        assert "nul\0other" in index
        assert 3 not in index


def test_labels_metadata_and_notes_survive(path):
    with LocalIndex.create(path, about={"model": "m"}) as index:
        index.add(["a", "b"], points(1, 2), labels=["x", None], metadata=[{"path": "a.jpg", "size": [1, 2]}, {}])
        assert index.about == {"model": "m"}
        index.describe({"model": "n"})
    with LocalIndex.open(path) as index:
        assert index.about == {"model": "n"}
        assert index.items(["b", "a"]) == [Item("b", None, {}), Item("a", "x", {"path": "a.jpg", "size": [1, 2]})]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "b", "a"], points(1, 2, 3)), "ids: expected each id once, got 'a' more than once"),
        ((["a"], points(1, 2)), "ids: expected 2, one for each item of the embedding, got 1"),
        (([1], points(1)), "id: expected a string, got int"),
        (("ab", points(1, 2)), "ids: expected a sequence of strings, got one string"),
        ((["\ud800"], points(1)), "id: expected valid Unicode"),
    ],
)
def test_bad_ids_are_refused(path, arguments, message):
    with LocalIndex.create(path) as index:
        with pytest.raises(InputError, match=message):
            index.add(*arguments)
        assert len(index) == 0


def test_bad_notes_are_refused(path):
    with LocalIndex.create(path) as index:
        with pytest.raises(InputError, match="metadata: expected a mapping to JSON"):
            index.add(["a"], points(1), metadata=[{"x": torch.zeros(1)}])
        with pytest.raises(InputError, match="labels: expected 1"):
            index.add(["a"], points(1), labels=["x", "y"])
        with pytest.raises(InputError, match="about: expected a mapping to JSON"):
            index.describe({"x": float("nan")})


def test_unknown_ids_are_named_and_nothing_is_removed(path):
    with LocalIndex.create(path) as index:
        index.add(["a", "b"], points(1, 2))
        for call in (index.remove, index.items, index.get, index.labels):
            with pytest.raises(GalleryError, match="expected items of the gallery, got 'c', 'd'"):
                call(["a", "c", "d"])
        assert index.ids() == ["a", "b"]
        assert index.remove([]) == 0


def test_an_empty_gallery_has_no_embedding(path):
    with LocalIndex.create(path) as index, pytest.raises(GalleryError, match="expected items, got an empty gallery"):
        index.embedding()


def test_one_writer_and_readers_that_keep_up(path, monkeypatch):
    monkeypatch.setattr(index_module, "LEAST", 10)
    with LocalIndex.create(path) as writer:
        reader = LocalIndex.open(path)
        assert reader.search(points(0)).ids.shape == (1, 0)
        with pytest.raises(GalleryLockedError, match=r"got process \d+ writing to it; wait for it or end it"):
            LocalIndex.open(path, write=True)
        with pytest.raises(GalleryLockedError):
            LocalIndex.create(path)
        with pytest.raises(GalleryError, match="expected an index open for writing"):
            reader.add(["x"], points(1))
        for step in range(30):  # past several snapshots
            writer.add([f"{step} {n}" for n in range(3)], points(step, step + 0.25, step + 0.5))
            if step:
                writer.remove([f"{step - 1} 0"])
            assert len(reader) == len(writer)
            assert reader.search(points(step)).ids.tolist() == writer.search(points(step)).ids.tolist()
            assert reader.search(points(step), 1).ids.tolist() == [[f"{step} 0"]]
        assert reader.embedding()[0] == writer.ids()
    LocalIndex.open(path, write=True).close()
    assert reader.recovered is None
    reader.close()


def test_a_writer_sees_what_it_wrote_before_it_was_interrupted(path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with LocalIndex.create(path) as index:
        index.add(["a"], Point(torch.zeros(1, 3)))
        assert index.search(Point(torch.ones(1, 3)), 1).ids.tolist() == [["a"]]
        with monkeypatch.context() as patch:
            patch.setattr(Replica, "apply", interrupt)  # the change is on disk by then
            with pytest.raises(KeyboardInterrupt):
                index.add(["b"], Point(torch.ones(1, 3)))
        assert index.search(Point(torch.ones(1, 3)), 1).ids.tolist() == [["b"]]


def test_a_reader_left_behind_by_a_snapshot_starts_from_it(path):
    with LocalIndex.create(path) as writer:
        writer.add(list("abc"), points(1, 2, 3))
        writer.compact()
        with LocalIndex.open(path) as reader:
            assert reader.search(points(1), 1).ids.tolist() == [["a"]]
            writer.remove(["a"])
            writer.add(["b"], points(9))
            writer.compact()
            with sqlite3.connect(path / "gallery.sqlite") as db:
                assert db.execute("SELECT count(*) FROM removed").fetchone() == (0,)  # nothing left to replay
            db.close()
            assert reader.search(points(1), 3).ids.tolist() == [["c", "b"]]
            assert reader.embedding()[0] == ["c", "b"]


def test_many_threads_share_a_reader_while_a_writer_writes(path):
    trouble = []

    def search(index):
        try:
            for _ in range(40):
                found = index.search(points(0, 0, 0), 2)
                # Both items are always replaced together.
                first, second = found.distances[0]
                if second - first != 1:
                    trouble.append((first, second))
        except Exception as error:
            trouble.append(error)

    with LocalIndex.create(path) as writer:
        writer.add(["a", "b"], points(1, 2))
        with LocalIndex.open(path) as reader:
            threads = [threading.Thread(target=search, args=(reader,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for step in range(40):
                writer.add(["a", "b"], points(step, step + 1))
                if step % 10 == 0:
                    writer.compact()
            for thread in threads:
                thread.join()
    assert trouble == []


def test_what_is_no_gallery(path, tmp_path):
    with pytest.raises(GalleryError, match=r"expected a directory with gallery.sqlite, got none; create it first"):
        LocalIndex.open(path)
    (tmp_path / "file").write_text("")
    with pytest.raises(GalleryError, match="expected a directory to write to"):
        LocalIndex.create(tmp_path / "file")
    with pytest.raises(GalleryError, match="expected a new or empty directory, got one with file"):
        LocalIndex.create(tmp_path)
    LocalIndex.create(path).close()
    with pytest.raises(GalleryError, match=r"expected none yet, got a gallery; open it with"):
        LocalIndex.create(path)


def test_a_closed_index_says_so(path):
    index = LocalIndex.create(path)
    index.add(["a"], points(1))
    index.close()
    index.close()
    with pytest.raises(GalleryError, match="closed"):
        index.search(points(1))
    with pytest.raises(GalleryError, match="or closed"):
        index.add(["b"], points(1))


def test_a_later_format_is_refused(path):
    LocalIndex.create(path).close()
    with sqlite3.connect(path / "gallery.sqlite") as db:
        db.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
    db.close()
    with pytest.raises(GalleryError, match="expected version 1 of the format, got version 99; update howsure"):
        LocalIndex.open(path)


@pytest.mark.parametrize("size", [0, 50, 5000])
def test_a_truncated_database_is_reported(path, size):
    with LocalIndex.create(path) as index:
        index.add([f"{n}" for n in range(300)], points(*range(300)))
    file = path / "gallery.sqlite"
    file.write_bytes(file.read_bytes()[:size])
    with (
        pytest.raises(GalleryError, match="got an empty file" if size == 0 else "damaged"),
        LocalIndex.open(path) as index,
    ):
        index.ids()


def test_a_full_disk_leaves_the_gallery_as_it_was(path):
    with LocalIndex.create(path) as index:
        index.add(["a"], points(1))
        index._store._db.execute("PRAGMA max_page_count = 20")
        with pytest.raises(GalleryError, match="full; free some disk space; nothing of this change was stored"):
            index.add([f"{n}" for n in range(5000)], points(*range(5000)))
        assert index.ids() == ["a"]
        assert index.search(points(5), 3).ids.tolist() == [["a"]]


def flip(path):
    (file,) = path.glob("snapshot-*.bin")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    return "checksum mismatch"


def truncate(path):
    (file,) = path.glob("snapshot-*.bin")
    file.write_bytes(file.read_bytes()[:-5])
    return "expected [0-9]+ bytes, got"


def delete(path):
    (file,) = path.glob("snapshot-*.bin")
    file.unlink()
    return "its file is missing"


def delete_manifest(path):
    (path / "snapshot.json").unlink()
    return "it is missing"


def garble_manifest(path):
    (path / "snapshot.json").write_bytes(b"\x00garbage")
    return "its manifest is unreadable"


def alter_manifest(path):
    manifest = json.loads((path / "snapshot.json").read_text())
    (path / "snapshot.json").write_text(json.dumps({**manifest, "sequence": 1}))
    return "its manifest was altered"


@pytest.mark.parametrize("damage", [flip, truncate, delete, delete_manifest, garble_manifest, alter_manifest])
def test_a_damaged_snapshot_is_rebuilt_and_reported(make, path, damage):
    with LocalIndex.create(path) as index:
        index.add([f"{n}" for n in range(50)], make(50))
        index.compact()
        index.add(["late"], make(1, seed=5))
        expected = index.search(make(3, seed=9), 20)
    with LocalIndex.open(path) as index:
        assert index.recovered is None
    reason = damage(path)

    def same(found):
        assert found.ids.tolist() == expected.ids.tolist()
        np.testing.assert_array_equal(found.distances, expected.distances)

    files = {file.name: file.read_bytes() for file in path.glob("snapshot*")}
    with LocalIndex.open(path) as reader:
        same(reader.search(make(3, seed=9), 20))
        assert files == {file.name: file.read_bytes() for file in path.glob("snapshot*")}  # a reader does not write
        assert re.search(f"of no use: {reason}", reader.recovered)
        with LocalIndex.open(path, write=True) as writer:
            assert re.search(f"rebuilt the snapshot: {reason}", writer.recovered)
            same(writer.search(make(3, seed=9), 20))
        same(reader.search(make(3, seed=9), 20))
    with LocalIndex.open(path) as index:
        assert index.recovered is None
        same(index.search(make(3, seed=9), 20))


def test_a_snapshot_of_another_gallery_is_not_believed(path, tmp_path):
    other = tmp_path / "other"
    for folder, values in ((path, (1, 2)), (other, (8, 9))):
        with LocalIndex.create(folder) as index:
            index.add(["a", "b"], points(*values))
    for file in path.glob("snapshot*"):
        file.unlink()
    for file in other.glob("snapshot*"):
        (path / file.name).write_bytes(file.read_bytes())
    with LocalIndex.open(path, write=True) as index:
        assert index.recovered == "rebuilt the snapshot: it belongs to another gallery"
        assert index.search(points(1), 1).distances.tolist() == [[0]]


def test_an_older_database_wins_over_a_newer_snapshot(path):
    with LocalIndex.create(path) as index:
        index.add(["a"], points(1))
    backup = (path / "gallery.sqlite").read_bytes()
    with LocalIndex.open(path, write=True) as index:
        index.add(["b"], points(2))
    (path / "gallery.sqlite").write_bytes(backup)
    with LocalIndex.open(path, write=True) as index:
        assert index.recovered is not None
        assert index.search(points(2), 5).ids.tolist() == [["a"]]
