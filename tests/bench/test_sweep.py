"""Errors and uncertainty against severity, on digits of eight by eight pixels; its figures, on made-up records."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from bench.pages import check_page
from bench.tiny import tiny_table, write_result
from howsure import data
from howsure.bench.experiments.sweep import sweep
from howsure.bench.plan import Cell, Table, table_named
from howsure.bench.report.site import write_site
from howsure.bench.work import Work
from howsure.data.corruptions import Corruption, corrupted_set
from howsure.evaluation.scores import observe
from howsure.posteriors import laplace
from howsure.recipe import recipe_for
from howsure.training import run_training

CORRUPTIONS = ("noise", "blur")
FREE = ("top1_distance", "knn50_features")


@pytest.fixture(scope="module")
def digits():
    training, test = data.load("digits:train"), data.load("digits:test").subset(range(200))
    embedder = laplace.fit(
        run_training(training, recipe_for("digits").but(backbone="mlp", epochs=3, dim=3)).embedder, training
    )
    anchors = observe(embedder, training.subset(range(300)))
    return embedder, test, sweep(embedder, anchors, test, free=FREE, corruptions=CORRUPTIONS, seed=3)


def test_recall_falls_with_severity_and_every_number_is_there(digits) -> None:
    _, _, found = digits
    metrics = found["metrics"]
    assert metrics["all.recall_at_1.5"] < metrics["all.recall_at_1.0"] - 0.1
    for name in (*CORRUPTIONS, "all"):
        for score in ("ambiguity", "novelty", *FREE):
            ranks = [metrics[f"{name}.{score}.rank.{step}"] for step in range(6)]
            assert np.mean(ranks) == pytest.approx(0.5)
            assert all(0 <= metrics[f"{name}.{score}.auroc.{step}"] <= 1 for step in range(1, 6))
    assert metrics["noise.recall_at_1.0"] == metrics["blur.recall_at_1.0"]
    assert metrics["all.top1_distance.rank.5"] > metrics["all.top1_distance.rank.0"]


def test_numbers_of_one_step_by_hand(digits) -> None:
    embedder, test, found = digits
    worse = embedder.encode(corrupted_set(test, Corruption("noise", 4), seed=3))
    clean = embedder.encode(test)
    gaps = torch.cdist(worse.mean.double(), clean.mean.double()).fill_diagonal_(torch.inf)
    labels = np.array(test.labels)
    right = labels[gaps.argmin(1).numpy()] == labels
    assert found["metrics"]["noise.recall_at_1.4"] == pytest.approx(right.mean())
    score = worse.uncertainty.numpy()
    assert found["metrics"]["noise.ambiguity.r_auroc.4"] == pytest.approx(roc_auc_score(~right, score))
    both = np.concatenate([clean.uncertainty.numpy(), score])
    wanted = roc_auc_score(np.arange(400) >= 200, both)
    assert found["metrics"]["noise.ambiguity.auroc.4"] == pytest.approx(wanted)


def test_lines_are_means_over_corruptions_from_clean_to_severest(digits) -> None:
    _, _, found = digits
    line = found["severity"]["ambiguity.auroc"]
    assert line[0] is None  # clean pictures are not compared with themselves
    assert line[2] == pytest.approx(np.mean([found["metrics"][f"{name}.ambiguity.auroc.2"] for name in CORRUPTIONS]))
    assert found["severity"]["recall_at_1"][0] == found["metrics"]["noise.recall_at_1.0"]


def test_models_of_another_table_are_read_and_not_made_again(tmp_path: Path) -> None:
    owner = tiny_table(tmp_path)
    (tmp_path / "other.toml").write_text('extends = "tiny"\nmodels = "tiny"\n')
    other = table_named(tmp_path / "other.toml")
    results = tmp_path / "results"

    def work(table: Table) -> Work:
        return Work(table, Cell("point", (0,)), results / table.name, quick=True)

    made = work(owner).embedder(work(owner).pictures("training"))
    reader = work(other)
    assert reader.embedder(reader.pictures("training")).fingerprint == made.fingerprint
    assert reader.resumed == ["point-seed-0"]
    assert not (results / "other").exists()


def test_curves_against_severity_are_on_the_page(tmp_path: Path) -> None:
    lines = {"recall_at_1": [0.8, 0.7, 0.6, 0.5, 0.4, 0.3], "ambiguity.auroc": [None, 0.5, 0.6, 0.7, 0.8, 0.9]}
    free = {"recall_at_1": [0.9] * 6, "top1_distance.auroc": [None, 0.5, 0.5, 0.5, 0.5, 0.55]}
    folder = tmp_path / "results" / "tiny"
    write_result(folder, "point", (0,), {"recall_at_1": 0.5}, severity=free)
    write_result(folder, "laplace", (0,), {"recall_at_1": 0.5}, severity=lines)
    page = write_site([tiny_table(tmp_path)], tmp_path / "results", tmp_path / "site")[1].read_text(encoding="utf-8")
    found = check_page(page, links={"index.html"})
    assert found.tags.count("svg") == 5  # three columns of dots, two against severity
    assert "from severity 1 to 5: Points 0.900 to 0.900; Laplace 0.700 to 0.300" in page
    assert "Laplace 0.500 to 0.900; training-free: nearest neighbour 0.500 to 0.550" in page
