from pathlib import Path

import pytest

from data.pictures import noise
from howsure.data import InputSpec, load, pixels
from howsure.errors import DataError


def table(folder: Path, name: str, text: str, *, encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.csv", 'path,label\r\na.png,cat\r\n"b, or c.png","big, grey"\r\nd.png,\r\n'),
        ("LIST.CSV", ' Label ,PATH,weight\ncat,a.png,1\n"big, grey","b, or c.png",2\n\n,d.png,3\n'),
        ("list.tsv", "path\tlabel\na.png\tcat\nb, or c.png\tbig, grey\nd.png\t\n"),
        (
            "list.jsonl",
            '{"path": "a.png", "label": "cat"}\n\n{"path": "b, or c.png", "label": "big, grey", "x": []}\n'
            '{"path": "d.png"}',
        ),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_the_same_pictures_from_every_kind(tmp_path: Path, name: str, text: str, encoding: str) -> None:
    images = load(table(tmp_path, name, text, encoding=encoding))
    assert images.ids == ("a.png", "b, or c.png", "d.png")
    assert images.labels == ("cat", "big, grey", None)
    assert images.paths == (tmp_path / "a.png", tmp_path / "b, or c.png", tmp_path / "d.png")
    assert images.name == name


def test_absolute_paths_ids_and_numbers_as_labels(tmp_path: Path) -> None:
    text = f'{{"path": "{tmp_path}/x.png", "label": 7, "id": 12}}\n{{"path": "x.png", "label": 0, "id": "é"}}\n'
    images = load(table(tmp_path, "list.jsonl", text))
    assert images.ids == ("12", "é")
    assert images.labels == ("7", "0")
    assert images.paths == (tmp_path / "x.png", tmp_path / "x.png")


def test_an_empty_id_is_the_path(tmp_path: Path) -> None:
    assert load(table(tmp_path, "list.csv", "id,path\nfirst,a.png\n,b.png\n")).ids == ("first", "b.png")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "file,label\nx.png,cat\n", "line 1: expected a column named path, got file, label"),
        ("a.csv", "paths,label\nx.png,cat\n", "did you mean paths"),
        ("a.csv", "", "an empty file"),
        ("a.csv", "path,label\n", "at least one picture, got no rows"),
        ("a.csv", "path,label\nx.png,cat\ny.png\n", "line 3: expected 2 values, got 1"),
        ("a.csv", "path,label\nx.png,cat,dog\n", "line 2: expected 2 values, got 3"),
        ("a.csv", "path,label\n,cat\n", "line 2: expected a path, got none"),
        ("a.csv", "path,label\nx.png,1\nz.png,1\nx.png,2\n", "line 4: .*'x.png', which is already on line 2"),
        ("a.csv", 'path,label\n"x.png"oops,cat\n', "line 2: expected well-formed quotes"),
        ("a.jsonl", '{"path": "x.png"}\n{"path": \n', "line 2: expected a JSON object"),
        ("a.jsonl", '{"path": "x.png"}\n["x.png"]\n', "line 2: .*key .path."),
        ("a.jsonl", '{"file": "x.png"}\n', "line 1: .*key .path."),
        ("a.jsonl", '{"path": null}\n', "line 1: expected a path, got none"),
        ("a.jsonl", '{"path": 1.5}\n', "line 1: expected path as text"),
        ("a.jsonl", '{"path": "x.png", "label": ["cat"]}\n', "line 1: expected label as text"),
        ("a.jsonl", '{"path": "x.png", "label": true}\n', "line 1: expected label as text"),
        ("a.jsonl", "[" * 100_000, "line 1: expected a JSON object"),
    ],
)
def test_a_bad_table_says_where(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(table(tmp_path, name, text))


def test_a_table_that_is_not_utf8_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected UTF-8 text"):
        load(table(tmp_path, "a.csv", "path,label\ncafé.png,x\n", encoding="latin-1"))


def test_a_missing_file_is_skipped_when_read_not_refused_when_loaded(tmp_path: Path) -> None:
    noise().save(tmp_path / "a.png")
    images = load(table(tmp_path, "list.csv", "path,label\na.png,cat\ngone.png,dog\n"))
    decoded = pixels(images, InputSpec(4, 4, 1, (0.5,), (0.5,)))
    assert decoded.images.ids == ("a.png",)
    assert [(skip.id, skip.path, skip.reason) for skip in decoded.skipped] == [
        ("gone.png", str(tmp_path / "gone.png"), "no such file or directory")
    ]
