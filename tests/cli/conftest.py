"""Run verbs in this process as a user would type them; one small trained model for all tests."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from howsure.cli.app import main


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["howsure", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits 0 to 7, trained for a few epochs, not calibrated; copy it before you change it."""
    from howsure import data
    from howsure.recipe import recipe_for
    from howsure.training import run_training

    out = tmp_path_factory.mktemp("models") / "digits"
    run_training(data.load("digits:train@!8,9"), recipe_for("digits").but(epochs=4), out=out)
    return out


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some digits of the test half as files: folder/LABEL/NNN.png."""
    from howsure import data

    root = tmp_path_factory.mktemp("pictures") / "photos"
    digits = data.load("digits:test")
    for i in range(200):
        folder = root / str(digits.labels[i])
        folder.mkdir(parents=True, exist_ok=True)
        digits.image(i).save(folder / f"{i:03d}.png")
    return root
