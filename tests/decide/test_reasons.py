"""Real pictures in which one thing is wrong: the reason names it. And a stream of such pictures is noticed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_images

from howsure import data
from howsure.data import ImageSet
from howsure.decide import Drift, Policy, ask, calibrate
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, cat
from howsure.index import LocalIndex
from howsure.posteriors import laplace
from howsure.recipe import recipe_for
from howsure.training import run_training


@dataclass(frozen=True, eq=False)
class Scene:
    """Digits 0 to 7: a model that tells uncertainty and novelty, its gallery, and held-out pictures."""

    embedder: Embedder
    gallery: Embedding
    labels: list[str]
    calibration: ImageSet
    new: ImageSet

    def policy(self, labels: Sequence[str], wanted: Sequence[str], **options: float) -> Policy:
        held = self.embedder.encode(self.calibration)
        return calibrate(held, wanted, self.gallery, labels, confidence=0.9, **options)  # type: ignore[arg-type]

    def blurred(self, severity: int, count: int) -> Embedding:
        lot = np.random.default_rng(0)
        return self.embedder.encode(
            [data.corrupt(self.new.image(row), "blur", severity=severity, rng=lot) for row in range(count)]
        )


@pytest.fixture(scope="module")
def scene() -> Scene:
    learned, held = data.load("digits:train@!8,9"), data.load("digits:test@!8,9")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("howsure.posteriors.laplace.learned_variance.STEPS", 400)  # of 1,500: enough for digits
        embedder = laplace.fit(run_training(learned, recipe_for("digits").but(epochs=8)).embedder, learned)
    order = np.random.default_rng(0).permutation(len(held))
    parts = (held.subset(np.sort(rows)) for rows in np.split(order, [500]))
    return Scene(embedder, embedder.encode(learned), list(map(str, learned.labels)), *parts)


@pytest.fixture(scope="module")
def policy(scene: Scene) -> Policy:
    return scene.policy(scene.labels, list(map(str, scene.calibration.labels)), max_error=0.05)


def reasons(
    folder: Path, policy: Policy, query: Embedding, gallery: Embedding, labels: Sequence[str]
) -> Counter[str | None]:
    """How often each reason was given, or the answer `match` or `unknown`."""
    with LocalIndex.create(folder / "gallery") as index:
        index.add([f"item {row}" for row in range(len(labels))], gallery, labels=labels)
        found = ask(index, query, policy=policy)
    return Counter(one.answer.reason if one.answer.kind == "not_sure" else one.answer.kind for one in found)


def main_reason(counts: Counter[str | None]) -> str | None:
    return (counts - Counter({"match": counts["match"]})).most_common(1)[0][0]


def test_clean_pictures_are_answered(scene: Scene, policy: Policy, tmp_path: Path) -> None:
    found = reasons(tmp_path, policy, scene.embedder.encode(scene.new), scene.gallery, scene.labels)
    assert found["match"] > 0.8 * found.total()


def test_a_blurred_picture_is_poor(scene: Scene, policy: Policy, tmp_path: Path) -> None:
    found = reasons(tmp_path, policy, scene.blurred(4, 60), scene.gallery, scene.labels)
    assert main_reason(found) == "poor_image"
    assert found["poor_image"] > 0.7 * (found.total() - found["match"])


def test_a_picture_of_another_kind_is_unknown(scene: Scene, policy: Policy, tmp_path: Path) -> None:
    """White paper and black ink change places: no such digit was ever seen."""
    inverted = [255 - np.asarray(scene.new.image(row).convert("L")) for row in range(60)]
    found = reasons(tmp_path, policy, scene.embedder.encode(inverted), scene.gallery, scene.labels)
    assert found["unknown"] + found["unfamiliar"] > 0.8 * found.total()


def test_photographs_are_unknown_or_unfamiliar(scene: Scene, policy: Policy, tmp_path: Path) -> None:
    photograph, lot = Image.fromarray(load_sample_images().images[1]).convert("L"), np.random.default_rng(0)
    corners = lot.integers(0, [photograph.width - 64, photograph.height - 64], (60, 2))
    parts = [photograph.crop((x, y, x + 64, y + 64)).resize((8, 8)) for x, y in corners.tolist()]
    found = reasons(tmp_path, policy, scene.embedder.encode(parts), scene.gallery, scene.labels)
    assert found["match"] < 0.2 * found.total()
    assert main_reason(found) in ("unknown", "unfamiliar")


def test_two_identities_that_look_the_same_are_a_conflict(scene: Scene, tmp_path: Path) -> None:
    """Every 0, 1, 2 and 3 is one of two people, who cannot be told apart."""

    def split(names: Sequence[str | None]) -> list[str]:
        return [f"{name}{'ab'[row % 2]}" if str(name) in "0123" else str(name) for row, name in enumerate(names)]

    wanted = split(scene.calibration.labels)
    policy = scene.policy(split(scene.labels), wanted, max_error=0.1, unknown_rate=0.0)
    threes = scene.new.subset([row for row, name in enumerate(scene.new.labels) if name == "3"])
    found = reasons(tmp_path, policy, scene.embedder.encode(threes), scene.gallery, split(scene.labels))
    assert main_reason(found) == "conflict"
    assert found["conflict"] > 0.5 * found.total()


def test_one_poor_reference_is_a_thin_gallery(scene: Scene, policy: Policy, tmp_path: Path) -> None:
    """Of the 7 the gallery holds one picture, a little blurred; four such galleries."""
    names, learned = np.array(scene.labels), data.load("digits:train@!8,9")
    sevens = scene.embedder.encode(scene.new.subset([row for row, name in enumerate(scene.new.labels) if name == "7"]))
    rest, found = np.flatnonzero(names != "7"), Counter[str | None]()
    for row in np.flatnonzero(names == "7")[:4].tolist():
        poor = data.corrupt(learned.image(row), "blur", severity=1, rng=np.random.default_rng(0))
        gallery = cat([scene.gallery[rest], scene.embedder.encode([poor])])
        found += reasons(tmp_path / str(row), policy, sevens, gallery, [*names[rest], "7"])
    assert main_reason(found) == "thin_gallery"


def test_a_stream_of_blurred_pictures_is_noticed_within_fifty(scene: Scene, policy: Policy) -> None:
    clean, poor = scene.embedder.encode(scene.new), scene.blurred(3, 50)
    for queries, drifted in ((clean, False), (poor, True)):
        watch = Drift(policy.reference)
        assert watch.watches == ("uncertainty", "novelty")
        assert queries.novelty is not None
        for uncertainty, novelty in zip(queries.uncertainty.tolist(), queries.novelty.tolist(), strict=True):
            state = watch.see(uncertainty, novelty)
        assert state.drifted == drifted
