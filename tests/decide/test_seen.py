"""Held-out items that were seen: found by content, file or place, left out when few, refused when many."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from howsure.data import ArrayImages, FileImages
from howsure.data.content import UNKNOWN, SeenContent, content_hashes, content_note
from howsure.decide.seen import Items, Named, Seen, unseen
from howsure.embeddings import Point
from howsure.errors import CalibrationError
from howsure.index import LocalIndex

RNG = np.random.default_rng(0)
NOTHING = SeenContent(np.empty(0, np.int64), complete=True)


def pictures(rows: range, prefix: str, *, label: str | None = "crow") -> Items:
    """Items whose embedding is made from their content, as by a network."""
    array = np.random.default_rng(1).integers(0, 256, (2_000, 8, 8), dtype=np.uint8)[list(rows)]
    images = ArrayImages(prefix, tuple(f"{prefix}/{row}" for row in rows), (label,) * len(rows), array)
    return Items.from_pictures(Point(torch.from_numpy(array.reshape(-1, 64) / 255.0)), images, content_hashes(array))


def vectors(rows: range) -> Items:
    x = np.random.default_rng(2).normal(size=(2_000, 16))[list(rows)]
    return Items.from_embedding(Point(torch.from_numpy(x)))


GALLERY = pictures(range(500), "photos")


def test_nothing_is_found_where_nothing_was_seen() -> None:
    held = pictures(range(500, 900), "held-out")
    kept, found = unseen(held, GALLERY, NOTHING, allow=False)
    assert kept is held
    empty = Named(0, ())
    assert found == Seen(empty, empty, empty, empty, left_out=0, training_known=True)


def test_a_few_are_left_out_and_named() -> None:
    held = pictures(range(497, 897), "held-out", label="raven")
    kept, found = unseen(held, GALLERY, NOTHING, allow=False)
    assert found.in_gallery == Named(3, ("held-out/497", "held-out/498", "held-out/499"))
    assert (found.left_out, found.trained_on.count) == (3, 0)
    assert kept.ids == held.ids[3:]
    assert torch.equal(kept.embedding.mean, held.embedding.mean[3:])
    assert np.array_equal(kept.content, held.content[3:])


def test_many_are_refused_with_the_first_names_and_what_to_do() -> None:
    held = pictures(range(490, 900), "held-out", label=None)
    trained = SeenContent(held.content[[8, 20, 30]], complete=True)
    with pytest.raises(CalibrationError) as raised:
        unseen(held, GALLERY, trained, allow=False)
    assert str(raised.value) == (
        "held-out items: expected what neither the gallery nor the training of the model has shown, "
        "got 12 of 410 that were shown: 10 in the gallery (held-out/490, held-out/491, held-out/492, held-out/493, "
        "held-out/494 and 5 more); 3 in training (held-out/498, held-out/510, held-out/520); "
        "hold out others; or allow_seen=True, --allow-seen, if you know why"
    )
    kept, found = unseen(held, GALLERY, trained, allow=True)
    assert kept is held
    assert (found.in_gallery.count, found.trained_on.count, found.left_out) == (10, 3, 0)


@pytest.mark.parametrize(("seen", "refused"), [(4, False), (5, True)])
def test_one_percent_is_few(seen: int, refused: bool) -> None:
    held = pictures(range(600, 1_000), "held-out")
    trained = SeenContent(held.content[:seen], complete=True)
    if refused:
        with pytest.raises(CalibrationError, match=f"{seen} of 400"):
            unseen(held, GALLERY, trained, allow=False)
    else:
        assert len(unseen(held, GALLERY, trained, allow=False)[0]) == 400 - seen


def test_the_same_id_is_no_leak_and_the_same_file_is(tmp_path: Path) -> None:
    held = replace(pictures(range(600, 1_000), "held-out"), ids=GALLERY.ids[:400])
    assert unseen(held, GALLERY, NOTHING, allow=False)[1].in_gallery.count == 0
    paths = tuple(tmp_path / f"{row}.png" for row in range(400))
    filed = FileImages("held-out", held.ids, held.labels, paths)
    held = Items.from_pictures(held.embedding, filed, held.content)
    with LocalIndex.create(tmp_path / "gallery") as index:
        notes = [{"path": str(tmp_path / "3.png")}] + [{}] * 499
        index.add(GALLERY.ids, GALLERY.embedding, metadata=notes)
        found = unseen(held, Items.from_index(index), NOTHING, allow=False)[1]
    assert found.in_gallery == Named(1, (held.ids[3],))


def test_what_a_gallery_notes_of_its_items_is_read_again(tmp_path: Path) -> None:
    with LocalIndex.create(tmp_path / "gallery") as index:
        notes = [content_note(content) for content in GALLERY.content]
        index.add(GALLERY.ids[:-1], GALLERY.embedding[:-1], labels=GALLERY.labels[:-1], metadata=notes[:-1])
        index.add(["added by hand"], GALLERY.embedding[-1])
        stored = Items.from_index(index)
    assert stored.pictured.tolist() == [True] * 499 + [False]
    assert np.array_equal(stored.content[:-1], GALLERY.content[:-1])
    assert stored.identities == ["crow"] * 499 + ["item added by hand"]
    assert unseen(pictures(range(498, 798), "held-out"), stored, NOTHING, allow=False)[1].in_gallery.count == 2


def test_where_the_content_is_known_it_decides() -> None:
    held = pictures(range(600, 1_000), "held-out")
    crowded = replace(GALLERY, embedding=Point(held.embedding.mean[[0] * 500]))  # all in one place
    assert unseen(held, crowded, NOTHING, allow=False)[1].in_gallery.count == 0
    forgetful = replace(crowded, pictured=np.zeros(500, bool))
    assert unseen(held, forgetful, NOTHING, allow=False)[1].in_gallery.count == 1


def test_vectors_are_known_by_where_they_lie() -> None:
    held, stored = vectors(range(497, 900)), vectors(range(500))
    kept, found = unseen(held, stored, UNKNOWN, allow=False)
    assert found.in_gallery == Named(3, ("0", "1", "2"))
    assert kept.ids[0] == "3"
    assert not found.training_known
    single = replace(stored, embedding=Point(stored.embedding.mean.float().double()))  # stored with less precision
    assert unseen(held, single, UNKNOWN, allow=False)[1].in_gallery.count == 3


@pytest.mark.parametrize("copies", [30, 31])
def test_many_copies_that_were_saved_anew_are_refused(copies: int) -> None:
    """Other content and other names, but nearer to pictures of the gallery than different ones are."""
    fresh, again = pictures(range(500, 800), "held-out"), pictures(range(copies), "again")
    moved = fresh.embedding.mean.clone()
    moved[:copies] = again.embedding.mean + 1e-3
    held = replace(fresh, embedding=Point(moved))
    if copies == 30:  # a tenth
        assert unseen(held, GALLERY, NOTHING, allow=False)[1].near.count == 30
        return
    with pytest.raises(CalibrationError, match=r"31 of 300 nearer to a gallery item .* like photos/0.*--allow-seen"):
        unseen(held, GALLERY, NOTHING, allow=False)
    kept, found = unseen(held, GALLERY, NOTHING, allow=True)
    assert (len(kept), found.near.count) == (300, 31)


def test_copies_among_them_and_near_ones_are_reported_and_kept() -> None:
    held = pictures(range(600, 1_000), "held-out")
    twice = held[[*range(400), 0, 1, 1]]
    kept, found = unseen(twice, GALLERY, NOTHING, allow=False)
    assert (kept is twice, found.repeated.count) == (True, 3)
    some = vectors(range(600, 900))
    assert unseen(some[[*range(300), 7]], vectors(range(500)), UNKNOWN, allow=False)[1].repeated == Named(1, ("7",))
    moved = Point(torch.cat([held.embedding.mean, GALLERY.embedding.mean[:2] + 1e-3]))
    worse = replace(held[[*range(400), 0, 1]], embedding=moved, ids=(*held.ids, "copy", "another"))
    kept, found = unseen(worse, GALLERY, NOTHING, allow=False)
    assert found.near == Named(2, ("copy like photos/0", "another like photos/1"))
    assert (kept is worse, found.in_gallery.count) == (True, 0)


def test_unknown_ones_are_looked_at_as_well() -> None:
    held = pictures(range(600, 1_000), "held-out").and_unknown(pictures(range(490, 500), "others"))
    assert held.labels[400:] == (None,) * 10
    with pytest.raises(CalibrationError, match=r"10 of 410 .* 10 in the gallery \(others/490, "):
        unseen(held, GALLERY, NOTHING, allow=False)


def test_training_is_known_where_both_sides_can_tell() -> None:
    held, flat = pictures(range(600, 700), "held-out"), Items.from_embedding(GALLERY.embedding[:50])
    assert unseen(held, GALLERY, NOTHING, allow=False)[1].training_known
    assert not unseen(held, GALLERY, UNKNOWN, allow=False)[1].training_known
    assert not unseen(held.and_unknown(flat), GALLERY, NOTHING, allow=True)[1].training_known


def test_what_was_found_survives_json() -> None:
    found = unseen(pictures(range(490, 900), "held-out"), GALLERY, UNKNOWN, allow=True)[1]
    assert Seen.from_json(json.loads(json.dumps(asdict(found)))) == found
    assert str(found.in_gallery).endswith("held-out/494 and 5 more")
