"""The main table in a few lines, and the README that shows it."""

import io
import re
from pathlib import Path

import pytest

from bench.tiny import tiny_table, write_result
from howsure.bench.plan import table_named
from howsure.bench.report.comparison import Comparison, compare, read_records
from howsure.bench.report.summary import summary, summary_figure

ROOT = Path(__file__).parents[2]


@pytest.fixture
def found(tmp_path: Path) -> Comparison:
    folder = tmp_path / "results" / "tiny"
    for seed in (0, 1):
        write_result(folder, "point", (seed,), {"recall_at_1": 0.55 + seed / 100})
    table = tiny_table(tmp_path).model_copy(update={"summary": ("first", "auroc")})
    return compare(table, read_records(table, folder))


def test_it_has_the_named_columns_and_the_methods_that_were_run(found: Comparison) -> None:
    lines = summary(found).splitlines()
    assert lines[0] == "|  | mAP@1 ↑ | AUROC ↑ |"
    assert lines[2] == "| Points | 0.555 (.50) | - |"
    assert lines[3] == ""  # the method without a record has no line
    assert "2 seeds" in lines[4]
    assert found.verdicts() in lines[4]


def test_the_picture_has_a_panel_a_column_and_a_mark_for_ours_and_for_theirs(found: Comparison) -> None:
    figure = summary_figure(found)
    figure.savefig(io.BytesIO(), format="png")
    first, second = figure.axes
    assert [text.get_text() for text in first.get_yticklabels()] == ["Points"]
    shown = {line.get_marker(): line.get_xdata() for line in first.lines if len(line.get_xdata()) == 1}
    assert shown["o"] == pytest.approx([0.555])
    assert shown["D"] == pytest.approx([0.5])
    assert not any(len(line.get_xdata()) for line in second.lines)


def test_the_readme_shows_the_main_table_as_the_records_have_it() -> None:
    table = table_named("fashion-mnist")
    made = summary(compare(table, read_records(table, ROOT / "results" / table.name)))
    shown = re.search(r"<!-- main table -->\n(.*?)<!-- /main table -->", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown, "README.md has no main table"
    assert shown[1].strip() == made.strip(), (
        "records have changed: howsure bench report -o DIR, then put DIR/fashion-mnist-summary.md into README.md "
        "and DIR/fashion-mnist-summary.png into docs/assets"
    )
