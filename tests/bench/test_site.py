"""The report on tables, checked as pages; records are made up, so that nothing is run."""

from pathlib import Path

import numpy as np
import pytest

from bench.pages import check_page
from bench.tiny import tiny_table, write_result
from howsure.bench.plan import Table, table_named
from howsure.bench.report.site import write_site
from howsure.errors import InputError
from howsure.evaluation.curves import GRID

CURVES = {
    "roc": {"ambiguity": np.sqrt(GRID).tolist(), "knn50_features": GRID.tolist()},
    "risk": {"ambiguity": (0.2 * GRID).tolist(), "top1_distance": (0.3 * GRID).tolist()},
    "reliability": {"confidence": [0.2, 0.8], "accuracy": [0.3, 0.7], "count": [50, 150]},
}


@pytest.fixture
def tables(tmp_path: Path) -> list[Table]:
    folder = tmp_path / "results" / "tiny"
    plain = {"recall_at_1": 0.55, "top1_distance.auroc": 0.7, "base_rate": 0.25}
    for seed in (0, 1):
        write_result(folder, "point", (seed,), plain | {"recall_at_1": 0.55 + seed / 100})
    laplace = {"recall_at_1": 0.98, "novelty.auroc": 0.604, "ambiguity.auprc": 0.3, "brier": 0.1}
    write_result(folder, "laplace", (0,), laplace, curves=CURVES, seconds={"wall": 9.0, "cpu": 7200.0})
    return [tiny_table(tmp_path), table_named("fashion-mnist")]


def test_pages_are_whole_and_lead_to_each_other(tables: list[Table], tmp_path: Path) -> None:
    written = write_site(tables, tmp_path / "results", tmp_path / "site")
    assert [file.name for file in written] == ["index.html", "tiny.html", "tiny.md"]
    index, page, _ = (file.read_text(encoding="utf-8") for file in written)
    assert check_page(index, links={"tiny.html"}).sources == ["tiny.html"]
    found = check_page(page, links={"index.html"})
    assert found.tags.count("table") == 2
    assert found.tags.count("svg") == 7  # three columns of dots, three curves, one reliability
    assert "Fashion-MNIST" in index
    assert "not run" in index


def test_a_page_says_what_the_records_say(tables: list[Table], tmp_path: Path) -> None:
    page = write_site(tables, tmp_path / "results", tmp_path / "site")[1].read_text(encoding="utf-8")
    text = page.replace("\N{NO-BREAK SPACE}", " ")
    for part in ("0.555 ± 0.007", "0.50 ± 0.01", "beaten", "not reached", "chance", "nearest neighbour", "2.00 hours"):
        assert part in text
    assert 'scope="row">Laplace' in page
    # Error rises evenly from 0 to 0.2; the most uncertain is left out first, so accuracy rises from 0.8 to 1.
    assert 'aria-label="Risk-coverage curve, mean height of each curve: Laplace 0.100' in page
    assert 'aria-label="Sparsification curve, mean height of each curve: Laplace 0.9' in page
    assert 'aria-label="mAP@1: Points 0.555 ± 0.007, published 0.50 ± 0.01;' in page


def test_the_same_records_give_the_same_pages(tables: list[Table], tmp_path: Path) -> None:
    first, second = (write_site(tables, tmp_path / "results", tmp_path / name) for name in ("a", "b"))
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]


def test_without_records_there_is_nothing_to_report(tables: list[Table], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="howsure bench TABLE"):
        write_site(tables, tmp_path / "nowhere", tmp_path / "site")
    assert not (tmp_path / "site").exists()
