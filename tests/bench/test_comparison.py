"""Our runs against published numbers."""

from pathlib import Path

import pytest

from bench.tiny import TABLE, tiny_table, write_result
from howsure.bench.plan import Table, table_named
from howsure.bench.report.comparison import Comparison, compare, read_records
from howsure.bench.report.text_table import markdown, plain
from howsure.errors import InputError

FREE = {"top1_distance.auroc": 0.7, "base_rate": 0.25}


def compared(table: Table, folder: Path) -> Comparison:
    return compare(table, read_records(table, folder))


@pytest.fixture
def found(tmp_path: Path) -> Comparison:
    folder = tmp_path / "results"
    write_result(folder, "point", (0,), {"recall_at_1": 0.5, **FREE})
    write_result(folder, "point", (1,), {"recall_at_1": 0.6, **FREE})
    laplace = {"recall_at_1": 0.98, "novelty.auroc": 0.604, "ambiguity.auroc": 0.1, "ambiguity.auprc": 0.3}
    write_result(folder, "laplace", (0,), {**laplace, "brier": 0.44})
    write_result(folder, "ensemble", (0, 1), {"recall_at_1": 0.1})
    write_result(folder, "ensemble", (0, 1, 2), {"recall_at_1": 0.7})
    return compared(tiny_table(tmp_path), folder)


def test_means_and_deviations_over_seeds(found: Comparison) -> None:
    points, _, ensemble, *_ = found.lines
    assert points.values["first"].ours == "0.550 ± 0.071"
    assert points.values["first"].seeds == 2
    assert ensemble.values["first"].ours == "0.700"  # the one with the most members


def test_a_verdict_on_every_printed_number(found: Comparison) -> None:
    points, laplace, *_ = found.lines
    assert points.values["first"].verdict == "beaten"
    assert points.values["auroc"].verdict == ""  # nothing was printed
    assert laplace.values["first"].verdict == "not reached"
    assert laplace.values["auroc"].verdict == "reached"  # 0.604 is 0.60
    assert laplace.values["brier"].verdict == "beaten"  # small is good, and 0.44 is 0.4
    assert found.verdicts() == "2 beaten, 1 reached, 1 not reached"


READS = """
[rows.other]
words = "Laplace, read in another way"
reads = { row = "laplace", under = "other" }
"""


def test_a_row_may_read_the_runs_of_another(tmp_path: Path) -> None:
    tiny_table(tmp_path)
    (tmp_path / "tiny.toml").write_text(TABLE + READS, encoding="utf-8")
    table = table_named(tmp_path / "tiny.toml")
    assert "other" not in {cell.method for cell in table.cells()}
    metrics = {"recall_at_1": 0.98, "other.recall_at_1": 0.4, "other.novelty.auroc": 0.9}
    write_result(tmp_path / "results", "laplace", (0,), metrics, curves={"roc": {}})
    found = compared(table, tmp_path / "results")
    assert {name: len(kept) for name, kept in found.runs().items()} == {"point": 0, "laplace": 1, "ensemble": 0}
    other = found.lines[3]
    assert other.words == "Laplace, read in another way"
    assert (other.values["first"].mean, other.values["auroc"].mean, other.values["brier"].mean) == (0.4, 0.9, None)
    with pytest.raises(InputError, match="method: expected point or laplace or ensemble"):
        table.cells(["other"])
    (tmp_path / "tiny.toml").write_text(TABLE + READS.replace('"laplace"', '"laplas"'), encoding="utf-8")
    with pytest.raises(InputError, match="did you mean laplace"):
        table_named(tmp_path / "tiny.toml")


def test_the_first_score_that_a_record_holds_counts(found: Comparison) -> None:
    laplace = found.lines[1]
    assert laplace.values["auroc"].metric == "novelty.auroc"
    assert laplace.values["auprc"].metric == "ambiguity.auprc"


def test_training_free_scores_and_chance_come_last(found: Comparison) -> None:
    free, chance = found.lines[-2:]
    assert (free.words, free.kind) == ("nearest neighbour", "free")
    assert free.values["auroc"].mean == 0.7
    assert free.values["first"].mean is None
    assert {name: value.mean for name, value in chance.values.items()} == {"auroc": 0.5, "auprc": 0.25}


def test_what_was_not_run_is_named(tmp_path: Path) -> None:
    table = tiny_table(tmp_path)
    nothing = compared(table, tmp_path / "results")
    assert nothing.verdicts() == "4 not run"
    assert "0.99 ?" in plain(nothing)


def test_columns_of_other_data_have_no_verdict(tmp_path: Path) -> None:
    tiny_table(tmp_path)
    (tmp_path / "other.toml").write_text('extends = "tiny"\n[columns.first]\ncomparable = false\n')
    write_result(tmp_path / "results", "point", (0,), {"recall_at_1": 0.9})
    assert compared(table_named(tmp_path / "other.toml"), tmp_path / "results").lines[0].values["first"].verdict == (
        "other data"
    )


def test_a_condition_is_settled_by_the_row_that_was_published(tmp_path: Path) -> None:
    tiny_table(tmp_path)
    settled = '[settled.worse]\nmetric = "{}.recall"\nrow = "point"\ncolumn = "first"\n'
    (tmp_path / "tiny.toml").write_text(
        TABLE.replace("[columns.first]", settled + "[columns.first]").replace("recall_at_1", "{worse}.recall")
    )
    folder = tmp_path / "results"
    write_result(folder, "point", (0,), {"clean.recall": 0.5, "blur.recall": 0.7, "noise.recall": 0.52})
    write_result(folder, "laplace", (0,), {"clean.recall": 0.8, "blur.recall": 0.9, "noise.recall": 0.994})
    got = compared(table_named(tmp_path / "tiny.toml"), folder)
    assert got.settled == {"worse": "noise"}
    assert got.lines[0].values["first"].verdict == "settled by it"
    assert got.lines[1].values["first"].mean == 0.994
    assert got.lines[1].values["first"].verdict == "reached"


def test_both_texts_say_the_same(found: Comparison) -> None:
    text, page = plain(found), markdown(found)
    for part in ("0.550 ± 0.071", "0.50 ± 0.01", "nearest neighbour", "chance", "2 beaten"):
        assert part in text
        assert part in page
    assert "| Laplace | 0.980 (0.99: not reached) | 0.604 (0.60: reached) |" in page
    assert "0.99 -" in text
    assert "- AUROC: positive = OOD" in page
    widths = {line.count("|") for line in page.splitlines() if line.startswith("|")}
    assert widths == {5, 3}  # three published columns and one more


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    table = tiny_table(tmp_path)
    file = write_result(tmp_path / "results", "point", (0,), {})
    file.write_text(file.read_text()[:-9])
    with pytest.raises(InputError, match=r"point-seed-0\.json"):
        read_records(table, tmp_path / "results")
