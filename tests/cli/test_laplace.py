"""howsure laplace: a model in, a model with uncertainty out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from howsure.data import load
from howsure.embedder import Embedder

Run = Any  # the fixture of conftest.py


@pytest.fixture(scope="module", autouse=True)
def hasty() -> Iterator[None]:
    """Widths that learn for a moment; how well they do is judged in posteriors/test_learned_variance.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("howsure.posteriors.laplace.learned_variance.STEPS", 50)
        yield


@pytest.fixture(scope="module")
def fitted(hasty: None, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from howsure.posteriors import laplace

    out = tmp_path_factory.mktemp("laplace") / "model"
    laplace.fit(Embedder.load(model), load("digits:train@!8,9")).save(out)
    return out


def test_no_mean_moves_and_every_embedding_gains_uncertainty_and_novelty(fitted: Path, model: Path) -> None:
    pictures = load("digits:test")
    before, after = (Embedder.load(folder).encode(pictures) for folder in (model, fitted))
    assert torch.equal(before.mean, after.mean)
    assert (after.uncertainty > 0).all()
    assert after.novelty is not None
    assert ((after.novelty >= 0) & (after.novelty <= 1)).all()


def test_alarms_are_rare_on_known_digits_and_frequent_on_ood_ones(fitted: Path) -> None:
    embedder = Embedder.load(fitted)
    known, ood = (embedder.encode(load(f"digits:test@{which}")).novelty for which in ("!8,9", "8,9"))
    assert known is not None
    assert ood is not None
    assert (known >= 0.9).float().mean() < 0.25  # 10 % of pictures like those held out; few were
    assert ood.mean() > known.mean()


def test_the_verb_writes_what_the_function_makes(run: Run, model: Path, fitted: Path, tmp_path: Path) -> None:
    done = run("laplace", model, "digits:train@!8,9", "-o", tmp_path / "m", "--json")
    assert done.code == 0
    assert done.json["structure"] == "last-full"
    assert done.json["prior"] > 0
    assert done.json["pictures"] == Embedder.load(model).card["pictures"]["training"]  # each once, however often drawn
    assert Embedder.load(tmp_path / "m").fingerprint == Embedder.load(fitted).fingerprint


def test_a_whole_network_with_a_prior_from_held_out_pictures(run: Run, model: Path, tmp_path: Path) -> None:
    done = run("laplace", model, "digits:train@0,1,2", "-o", tmp_path / "m", "--structure", "diagonal", "--json")
    assert done.code == 0
    assert done.json["structure"] == "diagonal"
    assert set(done.json["tried"]) >= {"1", "1000"}
    pictures = load("digits:test@8")
    before, after = (Embedder.load(folder).encode(pictures) for folder in (model, tmp_path / "m"))
    assert torch.equal(before.mean, after.mean)
    assert (after.uncertainty > 0).all()
    assert after.novelty is not None


def test_the_result_can_be_evaluated_and_calibrated(run: Run, fitted: Path, tmp_path: Path) -> None:
    done = run("evaluate", fitted, "digits:test@!8,9", "--ood", "digits:test@8,9", "--json")
    assert done.code == 0
    assert done.json["metrics"]["ood_auroc_novelty"]["value"] > 0.5
    assert "match_ece" in done.json["metrics"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--structure", "full"], "last-full or"),
        (["--prior", "-1"], "above 0"),
        (["--prior", "best"], "a number, marginal or validation"),
    ],
)
def test_wrong_options_are_refused(run: Run, model: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run("laplace", model, "digits:train@!8,9", "-o", tmp_path / "m", *arguments)
    assert done.code != 0
    assert message in done.err
    assert not (tmp_path / "m").exists()


def test_a_model_is_never_overwritten(run: Run, model: Path) -> None:
    done = run("laplace", model, "digits:train@!8,9", "-o", model)
    assert done.code != 0
    assert "already holds a model" in done.err
