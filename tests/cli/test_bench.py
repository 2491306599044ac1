"""howsure bench: run, print, report."""

from pathlib import Path
from typing import Any

import pytest

from bench.in_process import stay_in_process
from bench.tiny import tiny_table, write_result

Run = Any  # the fixture of conftest.py


def test_a_table_is_run_and_printed_and_then_only_read(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay_in_process(monkeypatch)
    table = tiny_table(tmp_path)
    words = ("bench", table.file, "--methods", "point", "--seeds", "0", "--quick", "--results", tmp_path / "r")
    done = run(*words, "--json")
    assert done.code == 0
    assert "point-seed-0 made" in done.err
    assert (tmp_path / "r" / "quick" / "tiny" / "point-seed-0.json").exists()  # kept apart from whole runs
    points = done.json["rows"][0]["values"]["first"]
    assert points["seeds"] == 1
    assert points["published"] == "0.50 ± 0.01"
    assert points["verdict"] in ("beaten", "reached", "not reached")
    again = run(*words, "--resume")  # as without it
    assert "made" not in again.err
    assert f"{points['mean']:.3f}" in again.out
    anew = run(*words, "--fresh", "--json")
    assert "point-seed-0 made" in anew.err
    assert anew.json["rows"][0]["values"]["first"]["mean"] == points["mean"]  # the same seed, the same digits


def test_records_become_pages(run: Run, tmp_path: Path) -> None:
    write_result(tmp_path / "r" / "fashion-mnist", "point", (0,), {"recall_at_1": 0.8})
    done = run("bench", "report", "-o", tmp_path / "site", "--results", tmp_path / "r")
    assert done.code == 0
    assert "5 files" in done.out
    for name in ("fashion-mnist.md", "fashion-mnist-summary.md"):
        assert "0.800" in (tmp_path / "site" / name).read_text(encoding="utf-8")


def test_tables_are_listed_with_what_is_made(run: Run, tmp_path: Path) -> None:
    write_result(tmp_path / "r" / "cifar10", "point", (0,), {})
    rows = {row["table"]: row for row in run("bench", "tables", "--results", tmp_path / "r", "--json").json}
    assert (rows["cifar10"]["made"], rows["fashion-mnist"]["made"]) == (1, 0)
    assert rows["cifar10"]["runs"] == 37


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fashion-mist"], "did you mean fashion-mnist?"),
        (["fashion-mnist", "--methods", "dropuot"], "did you mean dropout?"),
        (["fashion-mnist", "--seeds", "one"], "whole numbers from 0 on"),
    ],
)
def test_what_is_unknown_is_refused_with_a_suggestion(run: Run, words: list[str], message: str) -> None:
    done = run("bench", *words)
    assert done.code == 2
    assert message in done.err
