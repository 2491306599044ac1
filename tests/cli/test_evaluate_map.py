"""howsure evaluate --map and --corrupt."""

import re
from xml.etree import ElementTree

import pytest
from PIL import Image

from howsure.data.corruptions import KINDS


def test_both_panels_and_both_columns(run, model, tmp_path):
    file, folder = tmp_path / "new" / "map.svg", tmp_path / "sheets"
    arguments = ("evaluate", model, "digits:test@2,3,5,7", "--corrupt", "noise:4")
    done = run(*arguments, "--map", file, "--sheets", folder, "--json")
    assert done.code == 0
    assert done.json["map"] == str(file)
    assert done.json["corrupted"]["corruption"] == "noise:4"
    clean, worse = done.json["metrics"], done.json["corrupted"]["metrics"]
    assert worse["recall_at_1"]["value"] < clean["recall_at_1"]["value"] - 0.03
    assert "noise-4/most-certain.png" in done.json["sheets"][3]
    words = "".join(ElementTree.parse(file).getroot().itertext())
    assert "noise:4" in words
    assert re.search(r"clean, (\d+) of \1 pictures", words)
    table = run(*arguments).out.splitlines()
    assert table[0].split() == ["clean", "noise:4"]
    assert table[1].split()[:3] == [
        "recall_at_1",
        *(f"{metrics['recall_at_1']['value']:.4f}" for metrics in (clean, worse)),
    ]


def test_without_corruption_there_is_one_panel(run, model, tmp_path):
    done = run("evaluate", model, "digits:test@2,3,5,7", "--map", tmp_path / "map.png", "--json").json
    assert done["corrupted"] is None
    with Image.open(tmp_path / "map.png") as image:
        assert image.width < 900


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--corrupt", "nois:4"), "did you mean noise"),
        (("--corrupt", "noise"), "noise:3"),
        (("--corrupt", "digit-occlusion:3"), "28 high"),
        (("--map", "map.pdf"), ".svg or .png"),
    ],
)
def test_bad_names_are_one_clear_line(run, model, tmp_path, monkeypatch, arguments, word):
    monkeypatch.chdir(tmp_path)
    done = run("evaluate", model, "digits:test@2,3,5,7", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert word in done.err
    assert not list(tmp_path.iterdir())


def test_the_help_names_every_corruption(run):
    words = " ".join(run("evaluate", "--help").out.replace("|", " ").split())
    assert all(kind in words for kind in KINDS)
