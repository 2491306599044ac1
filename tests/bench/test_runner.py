"""Runs: only what is missing, alike to the last digit, stopped and resumed, failed apart, in processes of their own."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bench.in_process import stay_in_process
from bench.tiny import RECIPES, tiny_table, write_result
from howsure.bench.plan import Cell
from howsure.bench.runner import Progress, discard, make_missing, missing, record_file
from howsure.errors import InputError

POINT = Cell("point", (0,))


def record(folder: Path, cell: Cell = POINT) -> dict[str, Any]:
    return json.loads(record_file(folder, cell).read_text())


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Progress]]:
    """A whole small table: two networks, then a posterior of each and an ensemble of both."""
    root, events = tmp_path_factory.mktemp("bench"), []
    table = tiny_table(root)
    with pytest.MonkeyPatch.context() as patch:
        stay_in_process(patch)
        patch.setattr("howsure.posteriors.laplace.learned_variance.STEPS", 50)
        failed = make_missing(table, table.cells(), root / "results", jobs=1, tell=events.append)
    assert failed == {}
    return root, events


def test_every_run_leaves_a_record(done: tuple[Path, list[Progress]]) -> None:
    root, events = done
    found = record(root / "results")
    assert found["recipe"]["seed"] == 0
    assert found["versions"]["torch"]
    assert found["seconds"]["cpu"] > 0
    assert found["metrics"]["recall_at_1"] > 0.3
    assert record(root / "results", Cell("laplace", (1,)))["metrics"]["novelty.auroc"] > 0
    ensemble = record(root / "results", Cell("ensemble", (0, 1)))["metrics"]
    assert ensemble["votes.ece"] >= 0
    assert ensemble["novelty.auroc"] > 0  # its members are networks with a posterior of their own
    assert [one.what for one in events if one.cell == POINT and one.what != "going"] == ["begun", "made"]
    assert events[-1].done == events[-1].total == 5
    assert events[-1].left == 0


def test_the_same_seed_gives_the_same_digits_and_only_what_is_missing_is_made(
    done: tuple[Path, list[Progress]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay_in_process(monkeypatch)
    table = tiny_table(tmp_path)
    folder, events = tmp_path / "results", []
    other = done[0] / "results" / "point-seed-1.json"
    folder.mkdir()
    (folder / other.name).write_bytes(other.read_bytes())
    cells = [POINT, Cell("point", (1,))]
    assert missing(table, cells, folder) == [POINT]
    assert make_missing(table, cells, folder, jobs=1, tell=events.append) == {}
    assert {one.cell for one in events} == {POINT}
    again, before = record(folder), record(done[0] / "results")
    assert (again["metrics"], again["curves"]) == (before["metrics"], before["curves"])


@pytest.mark.slow
def test_a_run_ends_with_its_parent_and_resumes_from_its_last_whole_epoch(
    done: tuple[Path, list[Progress]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tiny_table(tmp_path)
    folder = tmp_path / "results"
    words = [sys.executable, "-m", "howsure.bench.run_cell", table.file, "point", "0", folder]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    checkpoint = folder / "models" / POINT.name / "checkpoint.safetensors"
    with child:
        while not checkpoint.exists() and child.poll() is None:
            time.sleep(0.005)
        child.stdin.close()  # type: ignore[union-attr]  # as when its parent dies
        assert child.wait(60) == 1
    assert missing(table, [POINT], folder) == [POINT]
    stay_in_process(monkeypatch)
    assert make_missing(table, [POINT], folder, jobs=1) == {}
    assert record(folder)["resumed"] == [POINT.name]
    assert record(folder)["metrics"] == record(done[0] / "results")["metrics"]


def test_runs_go_in_parallel_with_a_thread_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for the other to begin: one after the other, the first would wait in vain."""
    script = tmp_path / "python"
    script.write_text(
        f"""#!/bin/sh
touch {tmp_path}/begun-$5
[ $OMP_NUM_THREADS = 1 ] || exit 3
for _ in $(seq 100); do
    [ -e {tmp_path}/begun-0 ] && [ -e {tmp_path}/begun-1 ] && echo 0.5 && exit 0
    sleep 0.1
done
exit 4
"""
    )
    script.chmod(0o700)
    monkeypatch.setattr("howsure.bench.runner.sys.executable", str(script))
    table, events = tiny_table(tmp_path), []
    assert make_missing(table, table.cells(["point"]), tmp_path / "results", jobs=2, tell=events.append) == {}
    assert sorted(one.what for one in events) == ["begun", "begun", "going", "going", "made", "made"]


def test_a_failure_is_named_and_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay_in_process(monkeypatch)
    broken = RECIPES.replace('[methods.laplace]\nstart = "point"\nposterior = "laplace"', "[methods.laplace]\ndim = 3")
    broken = broken.replace('method = "point"', 'method = "point"\nbackbone = "nothing"').replace(
        "epochs = 2", "epochs = 1"
    )
    table = tiny_table(tmp_path, recipes=broken)
    events: list[Progress] = []
    cells = [POINT, Cell("laplace", (0,))]
    failed = make_missing(table, cells, tmp_path / "results", jobs=1, tell=events.append)
    assert list(failed) == [POINT]
    assert "backbone: expected lam-fashion" in failed[POINT]
    assert [one.what for one in events if one.what != "going"] == ["begun", "failed", "begun", "made"]
    assert missing(table, cells, tmp_path / "results") == [POINT]


def test_a_record_of_another_recipe_is_no_answer(tmp_path: Path) -> None:
    table = tiny_table(tmp_path)
    folder = tmp_path / "results"
    recipe = table.entries(seed=0)["point"].recipe
    write_result(folder, "point", (0,), {}, recipe=recipe.but(epochs=7).model_dump())
    with pytest.raises(InputError, match="epochs: 7 -> 2"):
        missing(table, [POINT], folder)
    discard([POINT], folder)
    assert missing(table, [POINT], folder) == [POINT]
    write_result(folder, "point", (0,), {}, recipe=recipe.model_dump())
    assert missing(table, [POINT], folder) == []
