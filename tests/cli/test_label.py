"""howsure label: from queries drawn by `search --audit` to a calibration on their verdicts."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from howsure import data
from howsure.web.settings import folder_of

Run = Any  # the fixture of conftest.py


@pytest.fixture(scope="module")
def made(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from howsure import Gallery

    where = tmp_path_factory.mktemp("label") / "gallery"
    with Gallery.create(where, model) as gallery:
        gallery.add("digits:train@!8,9")
    return where


@pytest.fixture
def gallery(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "gallery"))


def table(file: Path, rows: list[tuple[str, str]]) -> Path:
    file.write_text("label,id,note\n" + "".join(f"{label},{number},x\n" for number, label in rows), encoding="utf-8")
    return file


def test_from_use_to_a_policy(run: Run, gallery: Path, tmp_path: Path) -> None:
    found = run("search", gallery, "digits:test@!9", "--audit", 0.6, "--json")
    numbers = [one["audit"] for one in found.json]
    drawn = [number for number in numbers if number]
    assert drawn == [str(place + 1) for place in range(len(drawn))]
    assert 0.5 < len(drawn) / len(numbers) < 0.7
    assert f"{len(drawn)} of {len(numbers)} queries were drawn" in found.err
    listed = run("label", gallery, "--json").json
    assert [one["id"] for one in listed] == drawn
    assert {one["answer"] for one in listed} == {"not_sure"}

    digits = data.load("digits:test@!9")
    label_of = dict(zip(digits.ids, digits.labels, strict=True))
    said = [(one["id"], label_of[one["name"]]) for one in listed]
    said = [(number, "--unknown" if label == "8" else str(label)) for number, label in said]
    left = said.pop(350)[0]
    done = run("label", gallery, "--csv", table(tmp_path / "said.csv", [*said, (left, "")]), "--json").json
    assert done == {"labelled": [number for number, _ in said], "replaced": [], "waiting": 1}
    assert [one["id"] for one in run("label", gallery, "--json").json] == [left]

    folder_of(str(gallery)).mkdir()
    lines = [{"query": query} for query in ("f" * 64, "f" * 64, "0" * 64, listed[0]["name"])]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder_of(str(gallery)) / "feedback.jsonl").write_text(text + '{"query": "torn')
    policy = run("calibrate", gallery, "--audited", "--max-error", 0.15, "--json")
    assert policy.code == 0, policy.err
    assert policy.json["n"] == 350
    audit = policy.json["audit"]
    assert (audit["drawn"], audit["used"], audit["waiting"]) == (len(drawn), 350, len(said) - 350)
    assert audit["rates"] == [0.6]
    behind = f"up to the first without a verdict; {len(said) - 350} verdicts wait behind it"
    assert f"uses 350 of {len(drawn)} drawn queries: {behind}" in policy.err
    assert "feedback on 2 queries that nobody drew by lot is not used" in policy.err
    shown = run("calibrate", gallery, "--audited", "--max-error", 0.15)
    assert f"tested on 350 of {len(drawn)} queries drawn by lot, each with probability 0.6," in shown.out
    assert run("calibrate", gallery, "--audited", "--max-error", 0.0001).code == 1


def test_one_verdict_after_the_other(run: Run, gallery: Path) -> None:
    assert run("label", gallery).err == "0 of 0 drawn queries wait for a verdict\n"
    run("search", gallery, "digits:test@3", "--audit", 1)
    listed = run("label", gallery)
    first = data.load("digits:test@3").ids[0]
    assert listed.out.splitlines()[0] == f"     1  {first}   answered: not sure"
    assert f"in order: howsure label {gallery} 1 NAME" in listed.err
    assert "1 labelled" in run("label", gallery, 1, "3").out
    again = run("label", gallery, 1, "--unclear", "--json")
    assert again.json["replaced"] == ["1"]
    assert "in place of the verdicts that there were on 1" in again.err
    assert "the gallery has no 'three': it counts as an unknown identity" in run("label", gallery, 2, "three").err
    assert run("label", gallery).out.startswith("     3  ")
    assert run("search", gallery, "digits:test@4").err.count("drawn") == 0  # only where it is asked for


def test_names_of_files_cannot_command_the_terminal(run: Run, gallery: Path, pictures: Path, tmp_path: Path) -> None:
    file = tmp_path / "a\x1b[31m\nb.png"
    shutil.copy(next(pictures.rglob("*.png")), file)
    run("search", gallery, file, "--audit", 1)
    listed = run("label", gallery).out
    assert "a\\x1b[31m\\nb.png" in listed
    assert listed.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["1"], "got ID"),
        (["1", "a", "--unknown"], "got ID and '--unknown' and 'a'"),
        (["1", "--unknown", "--unclear"], "expected ID and one of NAME"),
        (["--unknown"], "got '--unknown'"),
        (["1", "a", "--csv", "x.csv"], "got ID and 'a' and --csv"),
        (["2000", "a"], "expected the number of a drawn query, got '2000'"),
        (["../gallery.sqlite", "a"], "expected the number of a drawn query, got '../gallery.sqlite'"),
        (["1", "a\x1b[31m"], "label: expected 1 to 256 characters, no control characters"),
        (["1", ""], "label: expected 1 to 256 characters"),
        (["--csv", "none.csv"], "none.csv: expected a CSV file of UTF-8 text, got no such file or directory"),
    ],
)
def test_what_makes_no_sense_is_one_line(run: Run, gallery: Path, words: list[str], said: str) -> None:
    run("search", gallery, "digits:test@3", "--audit", 1)
    done = run("label", gallery, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "got no rows"),
        ("id,name\n1,a\n", "expected the columns id and label in the first line, then rows, got id, name"),
        ("id,label\n1,\n", "expected at least one label, got none"),
        ("id,label\n1,a\n1,b\n", "expected each id once, got '1' again"),
        ("id,label\n99,a\n", "expected the number of a drawn query, got '99'"),
        ("id,label\n1\n2,b,c\n99,a\n", "expected the number of a drawn query, got '99'"),
        ('id,label\n1,"a\n', "expected a CSV file of UTF-8 text"),
        ("id,label\n1,a\x07\n", "label: expected 1 to 256 characters, no control characters"),
    ],
)
def test_a_table_is_taken_whole_or_not_at_all(run: Run, gallery: Path, tmp_path: Path, content: str, said: str) -> None:
    run("search", gallery, "digits:test@3", "--audit", 1)
    waiting = run("label", gallery).out
    (tmp_path / "said.csv").write_text(content)
    done = run("label", gallery, "--csv", tmp_path / "said.csv")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert run("label", gallery).out == waiting


def test_calibrate_takes_pictures_or_the_audit(run: Run, gallery: Path, model: Path) -> None:
    for words, said in (
        ([gallery], "expected DATA or --audited, got neither"),
        ([gallery, "digits:test", "--audited"], "expected DATA or --audited, got both"),
        ([model, "--audited"], f"got the model {model}"),
        ([gallery, "--audited", "--unknown", "digits:test@9"], "got --unknown"),
        ([gallery, "--audited"], "got none yet; howsure search"),
    ):
        done = run("calibrate", *words)
        assert (done.code, done.out) == (2, "")
        assert said in done.err
    run("search", gallery, "digits:test@3", "--audit", 1)
    assert "a verdict on the first query that was drawn" in run("calibrate", gallery, "--audited").err
    run("label", gallery, 1, 3)
    few = run("calibrate", gallery, "--audited")
    assert few.code == 1
    assert "30 held-out pictures or more, got 1" in few.err
