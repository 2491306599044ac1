"""Every example runs, top to bottom, and does what it says."""

import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import howsure.training
from howsure.data import ImageSet
from howsure.recipe import Recipe
from howsure.training import Trained, run_training

ELSEWHERE = {"external_network"}  # needs an extra and real pictures: test_external_network.py
EXAMPLES = sorted(path for path in (Path(__file__).parents[1] / "examples").glob("*.py") if path.stem not in ELSEWHERE)


@pytest.fixture(scope="module", autouse=True)
def trained_once() -> Iterator[None]:
    """Two examples begin with the same training."""
    done: dict[tuple[object, ...], Trained] = {}

    def once(images: ImageSet, recipe: Recipe, **options: object) -> Trained:
        key = (images.name, images.ids, recipe.model_dump_json(), *options.items())
        if key not in done:
            done[key] = run_training(images, recipe, **options)  # type: ignore[arg-type]
        return done[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(howsure.training, "train", once)
        yield


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_prints_a_good_recall(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(script.read_text().splitlines()) < 80
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path / "out")])
    runpy.run_path(str(script), run_name="__main__")
    assert float(capsys.readouterr().out.split()[-1]) > 0.9


def test_an_example_needs_nothing_that_is_not_installed() -> None:
    """From its own folder and in a process of its own; the work itself is done above."""
    begin = f"import runpy; runpy.run_path({str(EXAMPLES[-1])!r}, run_name='example')"
    subprocess.run([sys.executable, "-W", "error", "-c", begin], check=True, cwd=EXAMPLES[-1].parent)
