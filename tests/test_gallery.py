"""`Gallery`: one object for an index, its model and its policy; what it accepts, keeps, corrects and reports."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from decide.policies import policy
from howsure import Answer, Embedder, Finding, Gallery, Gaussian, InputSpec, Point, Policy, ask, data, train
from howsure.data import ImageSet
from howsure.decide import Reference
from howsure.errors import CalibrationError, GalleryError, HowsureError, InputError

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(600, 8))


def drawn(identities: range, each: int, *, seed: int, noise: float = 0.35) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around the centres of some identities, and whose they are."""
    labels = np.repeat(np.array(identities), each)
    return CENTRES[labels] + noise * np.random.default_rng(seed).normal(size=(len(labels), 8)), labels


@pytest.fixture
def vectors(tmp_path: Path) -> Gallery:
    gallery = Gallery.create(tmp_path / "vectors")
    x, y = drawn(range(40), 5, seed=1)
    gallery.add(x, ids=range(len(x)), labels=y)
    return gallery


@pytest.fixture(scope="module")
def digits() -> tuple[Embedder, ImageSet, ImageSet]:
    images = data.load("digits:train")
    model = train(images, backbone="mlp", epochs=3, dim=4)
    return model, images, data.load("digits:test")


def test_vectors_are_calibrated_asked_and_found_again(vectors: Gallery) -> None:
    x, y = drawn(range(40), 20, seed=2)
    made = vectors.calibrate(x, y, max_error=0.05)
    new, whose = drawn(range(40), 5, seed=3)
    findings = vectors.ask(new)
    right = [
        f.matches[0].label == str(label) for f, label in zip(findings, whose, strict=True) if f.answer.kind == "match"
    ]
    assert len(right) > 20
    assert np.mean(right) > 0.9
    where = vectors.where
    vectors.close()
    with Gallery.open(where) as again:
        assert again.policy == made
        assert [f.answer for f in again.ask(new)] == [f.answer for f in findings]
        assert again.status().stale == ()
        tallies = again.evaluate(new, whose)
        assert tallies["known"].asked == len(new)
        assert tallies["known"].answered == sum(f.answer.kind != "not_sure" for f in findings)
        assert tallies["unknown"].asked == 0


def test_a_gallery_that_grew_is_corrected_for_and_reported(vectors: Gallery, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = drawn(range(40), 30, seed=2)
    vectors.calibrate(x, y, max_error=0.05)
    new, whose = drawn(range(40), 60, seed=3)
    before = vectors.evaluate(new, whose)["known"]
    others, names = drawn(range(40, 75), 5, seed=4)
    vectors.add(others, ids=[f"other {row}" for row in range(len(others))], labels=names)
    after = vectors.evaluate(new, whose)["known"]
    assert after.answered < before.answered
    assert vectors.status().identities == 75
    assert vectors.status().stale == ("175 items added since", "35 identities added since")
    findings = ask(vectors.index, Point.from_vectors(new), policy=vectors.policy)
    assert sum(f.answer.kind != "not_sure" for f in findings) == after.answered  # there is one way, and it corrects
    monkeypatch.setattr(Policy, "identities_in", lambda policy, index: None)
    careless = vectors.evaluate(new, whose)["known"]
    assert careless.wrong > after.wrong
    assert careless.answered > after.answered


def test_replaced_items_are_reported_though_the_numbers_are_the_same(vectors: Gallery) -> None:
    x, y = drawn(range(40), 15, seed=2)
    vectors.calibrate(x, y, max_error=0.1)
    assert vectors.status().stale == ()
    vectors.add(CENTRES[:1], ids=[0], labels=[0])
    assert vectors.status().stale == ("items replaced since",)


def test_a_folder_of_pictures(tmp_path: Path, digits: tuple[Embedder, ImageSet, ImageSet]) -> None:
    model, images, test = digits
    where = tmp_path / "gallery"
    with Gallery.create(where, model) as gallery:
        done = gallery.add(images)
        assert (done.added, done.unchanged, done.skipped) == (len(images), 0, ())
        assert gallery.add(images).unchanged == len(images)
        gallery.index.add(  # as before its content was noted
            images.ids[:1], model.encode(images.subset([0])), labels=images.labels[:1], metadata=[images.stamp(0)]
        )
        assert gallery.add(images).unchanged == len(images)
        corrected = ["renamed", *list(images.labels)[1:]]
        assert gallery.add(images, labels=corrected).added == 1
        assert gallery.index.labels([images.ids[0]]) == ["renamed"]
        assert gallery.add(images).added == 1
    with Gallery.open(where) as gallery:  # the model lies in it
        finding = gallery.ask(test.subset([0]))[0]
        assert finding.answer.reason == "not_calibrated"
        array = np.asarray(test.image(0))
        for given in (test.image(0), [test.image(0)], array[None], gallery.embedder.encode(test.subset([0]))):
            (same,) = gallery.ask(given)
            assert same.matches == finding.matches
        Image.fromarray(array).save(tmp_path / "one.png")
        assert gallery.ask([tmp_path / "one.png"])[0].matches == gallery.ask(str(tmp_path / "one.png"))[0].matches
        answers = gallery.verify(test.subset([0, 1]), test.subset([0, 1]))
        assert all(answer.probability is not None and answer.probability > 0.5 for answer in answers)


def test_a_model_that_lies_elsewhere(tmp_path: Path, digits: tuple[Embedder, ImageSet, ImageSet]) -> None:
    model, images, _ = digits
    model.save(tmp_path / "model")
    with Gallery.create(tmp_path / "gallery", tmp_path / "model") as gallery:
        gallery.add(images.subset(range(20)))
    (tmp_path / "model").rename(tmp_path / "moved")
    with (
        Gallery.open(tmp_path / "gallery") as gallery,
        pytest.raises(HowsureError, match="say where it is: --model MODEL"),
    ):
        gallery.ask(images.subset([0]))
    with Gallery.open(tmp_path / "gallery", model=tmp_path / "moved") as gallery:
        assert gallery.ask(images.subset([0]))[0].matches[0].id == images.ids[0]
    other = Embedder("mlp", "point", model.spec, dim=4)
    other.save(tmp_path / "other")
    with (
        Gallery.open(tmp_path / "gallery", model=tmp_path / "other") as gallery,
        pytest.raises(GalleryError, match="expected the model that made it"),
    ):
        gallery.ask(images.subset([0]))


def test_two_galleries_of_one_model_keep_their_own_policies(
    tmp_path: Path, digits: tuple[Embedder, ImageSet, ImageSet]
) -> None:
    model, images, test = digits
    model.save(tmp_path / "model")
    made = {}
    for name, rows in (("many", range(600)), ("few", range(200))):
        with Gallery.create(tmp_path / name, tmp_path / "model") as gallery:
            gallery.add(images.subset(rows))
            made[name] = gallery.calibrate(test, max_error=0.3)
    for name, policy_made in made.items():
        with Gallery.open(tmp_path / name) as gallery:
            assert gallery.policy == policy_made
            assert gallery.status().stale == ()
    with Gallery.create(tmp_path / "third", tmp_path / "model") as gallery:
        assert gallery.policy is None
        made["many"].save(tmp_path / "model")
    with Gallery.open(
        tmp_path / "third"
    ) as gallery:  # a policy that lies with the model serves where there is no other
        assert gallery.policy == made["many"]


def test_what_is_not_accepted_is_said_in_our_words(vectors: Gallery, tmp_path: Path) -> None:
    x = CENTRES[:3]
    for wrong, said in (
        ({"items": x}, "ids: expected one for each of 3 items"),
        ({"items": x, "ids": ["a", "b"]}, "ids: expected 3"),
        ({"items": x, "ids": "abc", "labels": "abc"}, "labels: expected one for every item"),
        ({"items": x, "ids": ["ab", "c"], "labels": [1]}, "labels: expected 3"),
        ({"items": x, "ids": range(3), "labels": [1.5, 2, 3]}, "label: expected text or an integer, got float 1.5"),
        ({"items": x, "ids": [None] * 3}, "id: expected text or an integer"),
        ({"items": x.astype(int), "ids": range(3)}, "vectors: expected floats"),
        ({"items": np.array([["a", "b"]]), "ids": [1]}, "vectors: expected floats"),
        ({"items": x[0], "ids": [1]}, "items of a gallery without a model"),
        ({"items": x * np.nan, "ids": range(3)}, "finite"),
        ({"items": x[:, :2], "ids": range(3)}, "items for this gallery"),
        ({"items": None, "ids": range(3)}, "items of a gallery without a model"),
        ({"items": [Image.new("L", (8, 8))], "ids": [1]}, "items of a gallery without a model"),
        ({"items": tmp_path / "nothing"}, "nothing of that name"),
        ({"items": Gaussian(torch.zeros(1, 8), torch.ones(1, 8)), "ids": ["g"]}, "items for this gallery"),
    ):
        with pytest.raises(HowsureError, match=said):
            vectors.add(**wrong)
    with pytest.raises(InputError, match="dimension of the query"):
        vectors.ask(x[:, :2])
    with pytest.raises(InputError, match="labels: expected one for every item, got none"):
        vectors.calibrate(x)
    with pytest.raises(InputError, match="ids: expected one for each of 3 items, got 1"):
        vectors.calibrate(x, [1, 2, 3], ids=["a"])
    with pytest.raises(GalleryError, match="cannot tell probabilities yet"):
        vectors.verify(x, x)
    assert len(vectors) == 200


def test_it_is_not_created_twice(vectors: Gallery) -> None:
    vectors.close()
    with pytest.raises(GalleryError, match="expected none yet, got a gallery"):
        Gallery.create(vectors.where)
    spec = InputSpec(8, 8, 1, (0.0,), (1.0,))
    with pytest.raises(GalleryError, match="expected vectors as they are, without a model"):
        Gallery.create(vectors.where, Embedder("mlp", "point", spec, dim=8), exist_ok=True)
    with pytest.raises(InputError, match="the directory of a saved model"):
        Gallery.create("postgresql://localhost/none/none", Embedder("mlp", "point", spec, dim=8))


def test_torch_integers_and_removal(vectors: Gallery) -> None:
    vectors.add(torch.zeros(2, 8, dtype=torch.float64), ids=["x", 7777], labels=torch.tensor([4, 5]))
    assert vectors.index.labels(["x", "7777"]) == ["4", "5"]
    assert vectors.remove(["x", 7777]) == 2
    vectors.add(Point(torch.zeros(1, 8, dtype=torch.float64)), ids=["p"])
    assert vectors.search(np.zeros((1, 8)), 1).ids.tolist() == [["p"]]


USUAL = np.random.default_rng(0).random(500)


def findings_of(uncertainty: np.ndarray) -> list[Finding]:
    return [Finding(Answer("match", None, 0.9), value, None, (), True) for value in uncertainty.tolist()]


@pytest.mark.parametrize(("more", "drifted"), [(0.0, False), (1.0, True)])
def test_drift_is_noticed_and_reported(vectors: Gallery, more: float, drifted: bool) -> None:
    vectors.use(replace(policy(), reference=Reference(tuple(USUAL), ())))
    assert vectors.watch(findings_of(np.random.default_rng(1).random(40) + more)) is drifted
    assert vectors.status().drift.drifted is drifted


def test_pictures_in_the_order_of_their_folders_are_no_change(vectors: Gallery) -> None:
    vectors.use(replace(policy(), reference=Reference(tuple(USUAL), ())))
    assert vectors.watch(findings_of(np.sort(np.random.default_rng(2).random(200)))) is False


def test_without_a_policy_nothing_is_known_of_drift(vectors: Gallery) -> None:
    assert vectors.watch(findings_of(USUAL)) is None
    assert vectors.status().drift is None


def named(pictures: ImageSet, prefix: str) -> ImageSet:
    """The same pictures under other ids and labels."""
    ids = tuple(f"{prefix}/{row}" for row in range(len(pictures)))
    return replace(pictures, ids=ids, labels=tuple(str(9 - int(str(label))) for label in pictures.labels))


def test_no_promise_is_made_on_pictures_that_were_shown(
    tmp_path: Path, digits: tuple[Embedder, ImageSet, ImageSet]
) -> None:
    model, images, test = digits
    with Gallery.create(tmp_path / "gallery", model) as gallery:
        gallery.add(test.subset(range(400)))
        shown = r"of 449 that were shown: {} in the gallery \(.* and {} more\); hold out others"
        with pytest.raises(CalibrationError, match="100 " + shown.format(100, 95)):
            gallery.calibrate(test.subset(range(300, 749)), max_error=0.3)
        with pytest.raises(CalibrationError, match="100 " + shown.format(100, 95)):
            gallery.calibrate(named(test.subset(range(300, 749)), "copies"), max_error=0.3)
        with pytest.raises(CalibrationError, match=r"49 .* 49 in the gallery .* 44 more"):
            gallery.calibrate(test.subset(range(400, 800)), unknown=test.subset(range(49)), max_error=0.3)
        with pytest.raises(CalibrationError, match=r"300 of 300 .* 300 in training"):
            gallery.calibrate([images.image(row) for row in range(300)], labels=images.labels[:300], max_error=0.3)
        assert gallery.policy is None

        made = gallery.calibrate(test.subset(range(397, 898)), max_error=0.3)
        assert made.certificate.n == 498
        assert (seen := made.certificate.seen) is not None
        assert (seen.left_out, seen.in_gallery.names) == (3, test.ids[397:400])
        assert seen.training_known
        made = gallery.calibrate(test.subset(range(300, 749)), max_error=0.3, allow_seen=True)
        assert (seen := made.certificate.seen) is not None
        assert (seen.left_out, seen.in_gallery.count) == (0, 100)


def test_pictures_saved_in_another_format_are_known_again(
    tmp_path: Path, digits: tuple[Embedder, ImageSet, ImageSet]
) -> None:
    model, _, test = digits
    for kind, rows in (("png", range(400)), ("bmp", range(200, 600))):
        for row in rows:
            folder = tmp_path / kind / f"a {kind} {test.labels[row]}"
            folder.mkdir(parents=True, exist_ok=True)
            test.image(row).save(folder / f"{row}.{kind}")
    with Gallery.create(tmp_path / "gallery", model) as gallery:
        gallery.add(tmp_path / "png")
        with pytest.raises(CalibrationError, match=r"200 of 400 .* 200 in the gallery"):
            gallery.calibrate(tmp_path / "bmp")


def test_vectors_of_the_gallery_are_known_again(vectors: Gallery) -> None:
    stored, _ = drawn(range(40), 5, seed=1)
    x, y = drawn(range(40), 15, seed=2)
    vectors.calibrate(x, y, max_error=0.1)
    assert (seen := vectors.policy.certificate.seen) is not None
    assert (seen.in_gallery.count, seen.near.count) == (0, 0)
    assert not seen.training_known
    with pytest.raises(CalibrationError, match=r"200 of 800 .* 200 in the gallery"):
        vectors.calibrate(np.concatenate([x, stored]), [*y, *np.zeros(200, int)], max_error=0.1)


def test_a_model_that_cannot_say_what_it_saw(tmp_path: Path, digits: tuple[Embedder, ImageSet, ImageSet]) -> None:
    model, images, test = digits
    network = Embedder.wrap(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 16)), model.spec)
    with Gallery.create(tmp_path / "gallery") as gallery:
        gallery.add(network.encode(images), ids=images.ids, labels=images.labels)
        gallery.calibrate(network.encode(test), test.labels, max_error=0.5)
        assert (seen := gallery.policy.certificate.seen) is not None
        assert (seen.training_known, seen.in_gallery.count) == (False, 0)
        with pytest.raises(CalibrationError, match="899 of 899"):
            gallery.calibrate(network.encode(images, batch=7), images.labels, max_error=0.5)
