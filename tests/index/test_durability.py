import importlib
from pathlib import Path


def test_kill_nine_loses_nothing_acknowledged(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    score = importlib.import_module("durability").survive(kills=6, seed=100)
    assert score.trouble == []
    assert score.found == score.acknowledged > 6
    assert score.rebuilt == score.damaged
