"""Tables and their recipes as data."""

from pathlib import Path

import pytest

from bench.tiny import RECIPES, TABLE, tiny_table
from howsure.bench.plan import Cell, table_named, table_names
from howsure.bench.report.comparison import number
from howsure.errors import InputError

# Copied by hand from the printed tables, some of each.
PRINTED = {
    ("fashion-mnist", "point", "map_at_5"): "0.73 ± 0.01",
    ("fashion-mnist", "ensemble", "auprc"): "0.46",
    ("fashion-mnist", "hedged", "auroc"): "0.60 ± 0.12",
    ("fashion-mnist", "dropout", "ausc"): "0.84 ± 0.06",
    ("fashion-mnist", "laplace-online", "ece"): "0.02 ± 0.00",
    ("cifar10", "pfe", "auroc"): "0.21 ± 0.02",
    ("cifar10", "hedged", "auprc"): "0.70 ± 0.1",
    ("cifar10", "laplace", "ausc"): "0.81 ± 0.01",
    ("cifar10", "laplace-online", "map_at_10"): "0.57 ± 0.01",
    ("cub", "pfe", "map_at_5"): "0.5 ± 0.01",
    ("cub", "laplace", "map_at_1"): "0.65 ± 0.01",
    ("lfw", "dropout", "auroc"): "0.03 ± 0.01",
    ("lfw", "laplace-online", "ausc"): "0.50 ± 0.02",
    ("n-digit-2-2", "point", "knn_corrupt"): "0.583",
    ("n-digit-2-2", "hedged", "kendall_ap_clean"): "0.74 ± 0.03",
    ("n-digit-2-3", "hedged-2", "ap_corrupt"): "0.932",
    ("n-digit-3-2", "hedged-2", "kendall_knn_clean"): "0.29 ± 0.12",
    ("n-digit-3-3", "hedged", "knn_clean"): "0.770",
}
COUNTS = {"fashion-mnist": 40, "cifar10": 40, "cub": 34, "lfw": 29, "n-digit-2-2": 20, "n-digit-2-3": 12}


@pytest.mark.parametrize(("where", "text"), PRINTED.items())
def test_published_numbers_are_those_of_the_papers(where: tuple[str, str, str], text: str) -> None:
    table, row, column = where
    assert table_named(table).rows[row].published[column] == text


@pytest.mark.parametrize("name", table_names())
def test_every_table_is_whole(name: str) -> None:
    table = table_named(name)
    assert set(table.entries(seed=3)) == set(table.methods)
    assert all(entry.recipe.seed == 3 for entry in table.entries(seed=3).values())
    assert all(entry.recipe.epochs == 1 for entry in table.entries(seed=0, quick=True).values())
    printed = [text for row in table.rows.values() for text in row.published.values()]
    assert all(0 <= number(text) <= 1 for text in printed)
    assert len(printed) == COUNTS.get(name, len(printed))


def test_models_come_before_what_starts_from_them(tmp_path: Path) -> None:
    table = tiny_table(tmp_path)
    names = [cell.name for cell in table.cells()]
    assert names[:2] == ["point-seed-0", "point-seed-1"]
    assert names[-1] == "ensemble-seeds-0-1"
    assert table.cells(["laplace"], [1]) == [Cell("point", (1,)), Cell("laplace", (1,))]
    assert [cell.method for cell in table.cells(["ensemble"], [0])] == [
        "point",
        "laplace",
    ]  # one network is no ensemble


def test_a_posterior_has_the_recipe_of_its_network(tmp_path: Path) -> None:
    entries = tiny_table(tmp_path).entries(seed=1)
    assert entries["laplace"].recipe == entries["point"].recipe
    assert (entries["laplace"].start, entries["laplace"].posterior) == ("point", "laplace")


def test_a_table_that_extends_another_changes_single_keys_of_columns(tmp_path: Path) -> None:
    tiny_table(tmp_path)
    (tmp_path / "other.toml").write_text('extends = "tiny"\n[columns.auroc]\ncomparable = false\n')
    other = table_named(tmp_path / "other.toml")
    assert not other.columns["auroc"].comparable
    assert other.columns["auroc"].words == "AUROC"
    assert list(other.rows) == ["point", "laplace", "ensemble"]


@pytest.mark.parametrize(
    ("name", "message"), [("fashion-mist", "did you mean fashion-mnist?"), ("nowhere.toml", "a TOML file")]
)
def test_an_unknown_table_is_refused_with_a_suggestion(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        table_named(name)


def test_an_unknown_method_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean laplace"):
        tiny_table(tmp_path).cells(["laplase"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('published = { first = "0.50', 'published = { frist = "0.50', "did you mean first"),
        ('method = "point"\nscore', 'method = "points"\nscore', "did you mean point"),
        ('better = "low"', 'better = "down"', "'high' or 'low'"),
        ("seeds = [0, 1]", "sedes = [0, 1]", "tiny.toml: se"),
        ("title =", "title", "expected TOML"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    tiny_table(tmp_path)
    assert old in TABLE
    (tmp_path / "tiny.toml").write_text(TABLE.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        table_named(tmp_path / "tiny.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dim = 3", "dims = 3", "did you mean dim"),
        ('posterior = "laplace"', 'posterior = "laplase"', "a posterior of laplace or"),
        ('posterior = "laplace"', 'posterior = "laplace"\nepochs = 3', "nothing else"),
        ("[methods.ensemble]", "[methods.assembly]", "no ensemble"),
        ("[base]", "[bass]", "extends or base"),
    ],
)
def test_wrong_recipes_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in RECIPES
    table = tiny_table(tmp_path, recipes=RECIPES.replace(old, new))
    with pytest.raises(InputError, match=message):
        table.entries(seed=0)
