"""howsure evaluate --sheets."""

import json


def test_sheets_are_written_and_named(run, model, tmp_path):
    folder = tmp_path / "deep" / "sheets"
    done = run("evaluate", model, "digits:test@!8,9", "--sheets", folder, "--json")
    assert done.code == 0
    names = ["most-certain.png", "least-certain.png", "index.json"]
    assert done.json["sheets"] == [str(folder / name) for name in names]
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    assert index["data"] == "digits:test@!8,9"
    assert {item["label"] for item in index["sheets"][0]["items"]} <= set("01234567")


def test_a_file_in_the_way_is_one_clear_line(run, model, tmp_path):
    (tmp_path / "taken").write_text("")
    done = run("evaluate", model, "digits:test@!8,9", "--sheets", tmp_path / "taken")
    assert (done.code, done.out) == (2, "")
    assert "a folder for the sheets, got a file" in done.err
