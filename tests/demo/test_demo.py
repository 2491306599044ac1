import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.pages import check_page
from howsure import data
from howsure import demo as show
from howsure.cli.app import main
from howsure.decide import Policy, ask
from howsure.demo import steps
from howsure.demo.folder import UNKNOWN, prepare, write_pictures
from howsure.embedder import Embedder
from howsure.errors import DataError, HowsureError, InputError
from howsure.index import LocalIndex


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> show.Demo:
    made = show.run(tmp_path_factory.mktemp("demo") / "out", epochs=4, seed=0)
    show.write_report(made)
    return made


def test_the_pictures_are_apart(tmp_path: Path) -> None:
    write_pictures(tmp_path, seed=3)
    parts = ("gallery", "calibration/known", "calibration/unknown", "known", "unknown")
    names = {part: [file.name for file in (tmp_path / part).rglob("*.png")] for part in parts}
    assert sorted(name for some in names.values() for name in some) == sorted(f"{i:04d}.png" for i in range(1797))
    for part in parts:
        shown = {folder.name for folder in (tmp_path / part).iterdir()}
        assert shown == (set(UNKNOWN) if "unknown" in part else set("01234567"))
    pure = {file.name: np.asarray(Image.open(file)) for file in (tmp_path / "known").rglob("*.png")}
    corrupted = list((tmp_path / "corrupted").rglob("*.png"))
    assert len(corrupted) == len(pure)
    changed = [not np.array_equal(pure[f"{file.stem[:4]}.png"], np.asarray(Image.open(file))) for file in corrupted]
    assert np.mean(changed) > 0.99
    digits = data.load("digits:all")
    assert np.array_equal(pure[sorted(pure)[0]], np.asarray(digits.image(int(sorted(pure)[0][:4]))))


def test_everything_is_on_disk_and_answers_the_same_again(done: show.Demo) -> None:
    embedder = Embedder.load(done.folder / "model")
    policy = Policy.load(done.folder / "model", model=embedder.fingerprint)
    assert policy == done.policy
    some = done.queries[:: max(1, len(done.queries) // 40)]
    with LocalIndex.open(done.folder / "gallery") as index:
        again = ask(index, embedder.encode([query.path for query in some]), policy=policy)
    assert [finding.answer.kind for finding in again] == [query.finding.answer.kind for query in some]
    assert [finding.matches[0].id for finding in again] == [query.finding.matches[0].id for query in some]


def test_the_table_counts_what_happened(done: show.Demo) -> None:
    asked = Counter(query.kind for query in done.queries)
    for row in done.rows:
        assert {kind: tally.asked for kind, tally in row.tallies.items()} == asked
        assert all(0 <= tally.wrong <= tally.answered <= tally.asked for tally in row.tallies.values())
    answered, wrong = Counter(), Counter()  # type: ignore[var-annotated]
    for query in done.queries:
        kind, best = query.finding.answer.kind, query.finding.matches[0].label
        answered[query.kind] += kind != "not_sure"
        absent = query.label in UNKNOWN
        wrong[query.kind] += (kind == "match" and best != query.label) or (kind == "unknown" and not absent)
    ours = done.row(show.HOWSURE).tallies
    assert {kind: (tally.answered, tally.wrong) for kind, tally in ours.items()} == {
        kind: (answered[kind], wrong[kind]) for kind in asked
    }


def test_a_plain_search_always_answers_and_never_knows_an_unknown(done: show.Demo) -> None:
    plain = done.row(show.NEAREST)
    assert all(tally.answered == tally.asked for tally in plain.tallies.values())
    assert plain.tallies["unknown"].wrong == plain.tallies["unknown"].asked
    embedding = done.embedding.mean.double().numpy()
    gallery = done.gallery.embedding.mean.double().numpy()
    found = np.array(done.gallery.labels)[(embedding @ gallery.T).argmax(1)]
    wrong = sum(label != query.label for label, query in zip(found, done.queries, strict=True))
    assert wrong == plain.over(*plain.tallies).wrong


def test_it_beats_the_nearest_neighbour(done: show.Demo) -> None:
    plain, ours = (done.row(name).over(*show.PROMISED) for name in (show.NEAREST, show.HOWSURE))
    assert done.policy is not None
    assert ours.error is not None
    assert plain.error is not None
    assert ours.error < 0.08
    assert plain.error > 0.25
    assert ours.coverage > 0.3
    # A badly corrupted digit is as far from everything as an unknown one; but it gets no wrong match.
    corrupted = [query for query in done.queries if query.kind == "corrupted" and query.finding.answer.kind == "match"]
    assert sum(query.wrong for query in corrupted) < done.row(show.NEAREST).tallies["corrupted"].wrong / 10


def test_the_report_is_one_sound_file(done: show.Demo) -> None:
    text = done.report.read_text(encoding="utf-8")
    found = check_page(text)
    assert found.tags.count("img") > 40
    assert found.tags.count("svg") == 4
    assert text.count("<section>") >= 10
    ours = done.row(show.HOWSURE).tallies["known"]
    assert f"{ours.answered} of {ours.asked}" in text
    assert "nothing is promised there" in text


def test_examples_show_answers_refusals_and_an_error(done: show.Demo) -> None:
    chosen = show.examples(done)
    assert len(set(chosen)) == len(chosen) <= 10
    assert {query.answered for query in chosen} == {True, False}
    reasons = [query.finding.answer.reason for query in chosen if not query.answered]
    assert len(reasons) == len(set(reasons))
    assert any(query.wrong for query in chosen) == any(query.wrong for query in done.queries)


def test_without_a_promise_nothing_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MAX_ERROR", 1e-4)
    made = show.run(tmp_path / "out", method="gaussian", epochs=1)
    assert made.policy is None
    assert not (tmp_path / "out" / "model" / "policy.json").exists()
    assert made.row(show.HOWSURE).over(*show.PROMISED).answered == 0
    assert "Nothing is promised" in show.promise(made)
    show.write_report(made)
    check_page(made.report.read_text(encoding="utf-8"))


def test_prepare_replaces_a_demo_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "new" / "demo"
    prepare(out)
    (out / "model").mkdir()
    (out / "model" / "card.json").write_text("old")
    (out / "report.html").write_text("old")
    (out / "notes.txt").write_text("mine")
    prepare(out)
    assert sorted(file.name for file in out.iterdir()) == [".howsure-demo", "notes.txt"]

    (tmp_path / "empty").mkdir()
    prepare(tmp_path / "empty")

    other = tmp_path / "photos"
    (other / "model").mkdir(parents=True)
    with pytest.raises(DataError, match="made by an earlier demo"):
        prepare(other)
    assert [file.name for file in other.iterdir()] == ["model"]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DataError, match="--out"):
        prepare(tmp_path / "file")
    with pytest.raises(DataError, match="can be written"):
        prepare(tmp_path / "file" / "below")


def test_a_mistake_is_found_before_anything_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path)
    (tmp_path / "report.html").write_text("old")
    with pytest.raises(InputError, match="method"):
        show.run(tmp_path, method="circle")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HowsureError, match="plots"):
        show.run(tmp_path)
    assert (tmp_path / "report.html").read_text() == "old"


def test_a_link_in_place_of_the_gallery_is_not_followed(tmp_path: Path) -> None:
    prepare(tmp_path / "demo")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "photo.png").write_text("mine")
    (tmp_path / "demo" / "gallery").symlink_to(tmp_path / "precious")
    prepare(tmp_path / "demo")
    assert (tmp_path / "precious" / "photo.png").exists()
    assert not (tmp_path / "demo" / "gallery").is_symlink()


@pytest.mark.parametrize("form", ["json", "words"])
def test_the_verb(
    form: str, done: show.Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(show, "run", lambda out, **_: done)
    drawing = tmp_path / "demo.svg"
    extra = ["--json"] if form == "json" else ["--svg", str(drawing)]
    monkeypatch.setattr("sys.argv", ["howsure", "demo", "-o", str(tmp_path / "x"), *extra])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    printed, watched = capsys.readouterr()
    assert "writing the report" in watched
    if form == "json":
        document = json.loads(printed)
        assert [row["rule"] for row in document["table"]] == [row.name for row in done.rows]
        assert document["table"][-1]["known"]["wrong"] == done.row(show.HOWSURE).tallies["known"].wrong
        assert document["seed"] == 0
        assert Path(document["report"]).exists()
        return
    assert max(map(len, printed.split("Try next:")[0].replace(str(done.folder), "").splitlines())) <= 80
    commands = [line.split() for line in printed.split("Try next:")[1].splitlines() if line.strip()]
    assert len(commands) == 4
    assert all(Path(word).exists() for command in commands for word in command if "/" in word)
    picture = drawing.read_text(encoding="utf-8")
    assert "howsure" in picture
    assert picture.count("http") == picture.count("http://www.w3.org/2000/svg") == 1
