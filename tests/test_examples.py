"""Every example runs, top to bottom, and does what it says."""

import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = {"foreign_network"}  # needs an extra and real pictures: test_foreign_network.py
EXAMPLES = sorted(path for path in (Path(__file__).parents[1] / "examples").glob("*.py") if path.stem not in ELSEWHERE)


def test_there_are_examples():
    assert EXAMPLES


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_prints_a_good_recall(script, tmp_path):
    assert len(script.read_text().splitlines()) < 80
    done = subprocess.run([sys.executable, "-W", "error", script, tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) > 0.9
