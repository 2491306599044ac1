"""Maps, boxes and sheets of the models of a table."""

from pathlib import Path

import pytest

from bench.pages import check_page
from bench.tiny import tiny_table, write_result
from howsure import data
from howsure.bench.plan import Table
from howsure.bench.report.illustrations import SHOWN, illustrate
from howsure.bench.report.site import write_site
from howsure.plots.page import document, section
from howsure.recipe import recipe_for
from howsure.training import run_training


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network with uncertainty as the model of the row of points."""
    folder = tmp_path_factory.mktemp("drawn") / "results" / "tiny"
    digits = data.load("digits:train@!8,9")
    recipe = recipe_for("digits").but(method="gaussian", backbone="mlp", dim=3, epochs=1)
    run_training(digits.subset(range(0, len(digits), 4)), recipe, out=folder / "models" / "point-seed-0")
    write_result(folder, "point", (0,), {"recall_at_1": 0.5})
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return tiny_table(tmp_path_factory.mktemp("table"))


def test_a_model_that_is_there_is_drawn(results: Path, table: Table) -> None:
    drawn = illustrate(table, results)
    assert list(drawn) == ["Points"]  # the other rows have no model
    found = check_page(document("drawn", section("Points", drawn["Points"])))
    assert found.tags.count("svg") == 2  # a map, and one box plot: this model has no novelty
    assert found.tags.count("img") == 2 * SHOWN
    for words in ("Most certain", "Least certain", "nearest neighbour wrong", "OOD"):
        assert words in drawn["Points"]


def test_it_is_part_of_the_page(results: Path, table: Table, tmp_path: Path) -> None:
    _, html, _ = write_site([table], results.parent, tmp_path)
    assert "Points, first seed" in html.read_text(encoding="utf-8")


def test_without_the_pictures_nothing_is_drawn(results: Path, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOWSURE_DATA", raising=False)
    elsewhere = table.model_copy(update={"data": {"test": "mnist:test", "unfamiliar": "fashion-mnist:test"}})
    assert illustrate(elsewhere, results) == {}
