"""howsure cluster, track, gate and label-next."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from howsure import data

Run = Any  # the fixture of conftest.py


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_clusters_are_written_and_judged_by_the_labels(run: Run, model: Path, pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "clusters.csv"
    done = run("cluster", pictures, "-m", model, "-o", out, "--like", "digits:train@0,1,2,3", "--json")
    assert done.code == 0
    assert done.json["pictures"] == len(rows(out)) == 200
    assert set(rows(out)[0]) == {"id", "cluster", "uncertainty"}
    assert max(int(row["cluster"]) for row in rows(out)) + 1 == done.json["clusters"]
    assert done.json["agreement"]["B-cubed"]["F"] > 0.5
    plain = run("cluster", pictures, "-m", model, "-o", out, "--plain")
    assert "200 pictures in" in plain.out
    assert "pairwise" in plain.out


def test_tracks_follow_digits_through_frames(run: Run, model: Path, tmp_path: Path) -> None:
    digits = data.load("digits:test@0,1,2")
    labels = np.array(digits.labels)
    for frame in range(5):
        for label in ("0", "1", "2"):
            row = int(np.flatnonzero(labels == label)[frame])
            (tmp_path / "film" / f"{frame:03d}").mkdir(parents=True, exist_ok=True)
            digits.image(row).save(tmp_path / "film" / f"{frame:03d}" / f"{label}.png")
    out = tmp_path / "tracks.csv"
    done = run("track", tmp_path / "film", "-m", model, "-o", out, "--json")
    assert done.code == 0
    assert (done.json["detections"], done.json["frames"]) == (15, 5)
    found = rows(out)
    for frame in range(5):  # nobody twice in one frame
        tracks = [row["track"] for row in found if row["frame"] == f"{frame:03d}" and row["track"] != "-1"]
        assert len(tracks) == len(set(tracks))
    by_digit = {label: {row["track"] for row in found if row["id"].endswith(f"{label}.png")} for label in ("0", "1")}
    assert by_digit["0"] != by_digit["1"]


def test_a_gate_between_two_models(run: Run, model: Path) -> None:
    done = run("gate", model, model, "digits:test@!8,9", "--share", "0.3", "--json")
    assert done.code == 0
    assert done.json["gate"]["by"] == "distance"  # points have no uncertainty of their own
    assert done.json["gate"]["share"] == pytest.approx(0.3, abs=0.1)
    curve = done.json["accuracy"]["distance"]
    assert curve["0.0"] == curve["1.0"] == pytest.approx(done.json["gate"]["accuracy"])  # one model twice
    assert "at random" in run("gate", model, model, "digits:test@!8,9").out


def test_pictures_to_label_are_listed(run: Run, model: Path, pictures: Path) -> None:
    done = run("label-next", pictures, "-m", model, "-n", "5", "--labelled", "digits:train@0,1", "--json")
    assert done.code == 0
    listed = [row["id"] for row in done.json["label"]]
    assert len(set(listed)) == 5
    assert not {name.split("/")[-2] for name in listed[:3]} & {"0", "1"}  # these have their labels
    lines = run("label-next", pictures, "-m", model, "-n", "3").out.splitlines()
    assert [line.split()[0] for line in lines] == ["different"] * 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cluster", "digits:test", "-m", "MODEL", "-o", "c.txt"], "ends in .csv"),
        (["track", "digits:test", "-m", "MODEL", "-o", "t.json"], "ends in .csv"),
        (["label-next", "digits:tset", "-m", "MODEL"], "digits:test"),
    ],
)
def test_mistakes_are_explained(run: Run, model: Path, words: list[str], message: str) -> None:
    done = run(*(str(model) if word == "MODEL" else word for word in words))
    assert done.code == 2
    assert message in done.err
