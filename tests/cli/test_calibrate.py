"""howsure calibrate: what it says of held-out pictures that were seen."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from howsure.files import sealed

Run = Any  # the fixture of conftest.py

TOLERATED = ("--max-error", 0.3)


@pytest.fixture
def gallery(run: Run, model: Path, tmp_path: Path) -> Path:
    out = tmp_path / "gallery"
    run("index", "digits:train@!8,9", "-m", model, "-o", out)
    return out


def test_clean_pictures_need_no_word(run: Run, gallery: Path) -> None:
    done = run("calibrate", gallery, "digits:test@!8,9", *TOLERATED, "--json")
    assert (done.code, done.err) == (0, "")
    nothing = {"count": 0, "names": []}
    assert done.json["seen"] == {
        "in_gallery": nothing,
        "trained_on": nothing,
        "repeated": nothing,
        "near": nothing,
        "left_out": 0,
        "training_known": True,
    }


def test_pictures_of_the_gallery_and_of_training_are_refused(run: Run, model: Path, gallery: Path) -> None:
    done = run("calibrate", gallery, "digits:train@!8,9", *TOLERATED, "--json")
    assert (done.code, done.out) == (1, "")
    assert "in the gallery (digits/" in done.err
    assert "in training (digits/" in done.err
    assert "--allow-seen" in done.err
    assert "Traceback" not in done.err
    assert not (gallery / "policy.json").exists()
    alone = run("calibrate", model, "digits:train@!8,9", *TOLERATED)
    assert alone.code == 1
    assert "in training (digits/" in alone.err
    assert "in the gallery" not in alone.err


def test_allowed_ones_are_named_and_kept(run: Run, gallery: Path) -> None:
    done = run("calibrate", gallery, "digits:train@!8,9", *TOLERATED, "--allow-seen", "--json")
    assert done.code == 0
    assert done.json["seen"]["in_gallery"]["count"] == done.json["seen"]["trained_on"]["count"] > 600
    assert "held-out pictures, in the gallery: " in done.err
    assert "held-out pictures, trained on: " in done.err
    assert "left out" not in done.err


def test_a_few_are_left_out_and_named(run: Run, gallery: Path, tmp_path: Path) -> None:
    from howsure import data

    shown, held = data.load("digits:train@!8,9").subset(range(4)), data.load("digits:test@!8,9")
    for images, name in ((held, "new"), (shown, "shown")):
        for row, label in enumerate(images.labels):
            folder = tmp_path / "held-out" / str(label)
            folder.mkdir(parents=True, exist_ok=True)
            images.image(row).save(folder / f"{name} {row}.png")
    shutil.copy(tmp_path / "held-out" / str(held.labels[0]) / "new 0.png", tmp_path / "held-out" / "0" / "again.png")
    done = run("calibrate", gallery, tmp_path / "held-out", *TOLERATED)
    assert done.code == 0
    assert "left out 4 of the held-out pictures" in done.err
    assert "copies of others among them: 1 (" in done.err
    assert all(f"shown {row}.png" in done.err for row in range(4))


def test_a_model_that_does_not_say_what_it_was_trained_on(run: Run, model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "old")
    card = tmp_path / "old" / "card.json"
    keys = json.loads(card.read_text())
    card.write_text(json.dumps(sealed(keys | {"seen": None})))
    done = run("calibrate", tmp_path / "old", "digits:test@!8,9", *TOLERATED, "--json")
    assert done.code == 0
    assert done.err == "the model does not say all that it was trained on: make sure that none of these pictures was\n"
    assert not done.json["seen"]["training_known"]


def test_every_engine_knows_its_pictures_again(run: Run, model: Path, urls: Any) -> None:
    gallery = urls()
    assert run("index", "digits:test@!8,9", "-m", model, "-o", gallery).code == 0
    refused = run("calibrate", gallery, "digits:test@0,1,2", *TOLERATED)
    assert refused.code == 1
    assert "in the gallery (digits/" in refused.err
    trained = run("calibrate", gallery, "digits:train@!8,9", *TOLERATED, "--allow-seen", "--json").json["seen"]
    assert trained["in_gallery"]["count"] == 0 < trained["trained_on"]["count"]
