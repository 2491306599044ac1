"""One law for every engine: a gallery does the same wherever it is."""

import importlib

import numpy as np
import pytest
import torch

from howsure import Gaussian, Matcher, Point, ask
from howsure.errors import GalleryError, InputError
from howsure.index import Item, LocalIndex, RemoteIndex, connect
from howsure.index.remote import likelihood as remote_likelihood
from howsure.prior import Prior


def points(*values):
    return Point(torch.tensor([[float(value)] for value in values]))


def same(found, expected):
    for name, array in expected.arrays().items():
        assert found.arrays()[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays()[name], array)


def test_a_gallery_does_what_one_in_a_directory_does(make, urls, tmp_path):
    rng, url, twin = np.random.default_rng(0), urls(), LocalIndex.create(tmp_path / "twin")
    if url.startswith("milvus:") and make.__name__ not in ("isotropic", "draws_of_gaussians"):
        pytest.skip("two families are enough for the slowest server")
    matcher = Matcher(scale=2.0, offset=1.0, base_rate=0.5)
    index = connect(url, create=True)
    for step in range(8):
        action = ["add", "add", "add", "remove", "reopen", "add", "remove", "compact"][step]
        names = twin.ids()
        if action == "add":
            ids = [f"item {n}" for n in rng.choice(300, size=rng.integers(1, 120), replace=False)]
            batch, labels = make(len(ids), seed=step), [f"label {len(name) % 3}" for name in ids]
            for gallery in (index, twin):
                gallery.add(ids, batch, labels=labels, metadata=[{"at": step, "id": name} for name in ids])
        elif action == "remove":
            gone = rng.choice(names, size=len(names) // 3, replace=False).tolist()
            assert index.remove(gone) == twin.remove(gone)
        elif action == "reopen":
            index.close()
            index = connect(url, write=True)
        else:
            index.compact()
        assert len(index) == len(twin)
        query = make(7, seed=100 + step)
        found, expected = index.search(query, 10, matcher=matcher), twin.search(query, 10, matcher=matcher)
        assert found.ids.tolist() == expected.ids.tolist()
        np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-12)
        np.testing.assert_allclose(found.uncertainty, expected.uncertainty, rtol=1e-12)
        np.testing.assert_allclose(found.probabilities, expected.probabilities, rtol=1e-12)
    names = twin.ids()
    assert index.ids() == names
    assert index.items(names[::-1]) == twin.items(names[::-1])
    assert index.references(["label 0", "label 1", None, "none"]) == twin.references(
        ["label 0", "label 1", None, "none"]
    )
    assert index.embedding()[0] == names
    same(index.embedding()[1], twin.embedding()[1])
    same(index.get(names[:3]), twin.get(names[:3]))
    index.close()
    twin.close()


def agree(found, expected, *more):
    assert found.ids.tolist() == expected.ids.tolist()
    for name in ("distances", "uncertainty", "probabilities", *more):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-9)


def test_a_search_by_likelihood_is_that_of_a_directory(make, urls, tmp_path):
    url, twin, matcher = urls(), LocalIndex.create(tmp_path / "twin"), Matcher(scale=0.3, offset=1.0, base_rate=0.5)
    families = {"postgresql": ("isotropic", "diagonal", "draws_of_gaussians"), "milvus": ("diagonal",)}
    if make.__name__ not in families.get(url.partition("://")[0], make.__name__):
        pytest.skip("fewer families are enough for a server")
    one, each = Prior(torch.zeros(6), torch.ones(1)), Prior(torch.linspace(-1, 1, 6), torch.linspace(0.5, 3, 6))
    index, query = connect(url, create=True), make(7, seed=100).to(dtype=torch.float64)
    if "point" in make.__name__:
        query = Gaussian(query.mean, torch.full((7, 1), 0.5, dtype=torch.float64))  # two points have no likelihood
    steps = [
        lambda gallery: gallery.set_prior(one),
        lambda gallery: gallery.add([f"{n}" for n in range(120)], make(120)),
        lambda gallery: gallery.add([f"{n}" for n in range(90, 190)], make(100, seed=1)),
        lambda gallery: gallery.remove([f"{n}" for n in range(0, 190, 3)]),
        lambda gallery: gallery.set_prior(each),
        lambda gallery: gallery.compact(),
        lambda gallery: gallery.add(["0", "1"], make(2, seed=2)),
    ]
    for step in steps:
        for gallery in (index, twin):
            step(gallery)
        for approximate in (False, True) if len(twin) else ():  # among all, and among candidates: all of so few
            options = {"by": "likelihood", "matcher": matcher, "approximate": approximate}
            found, expected = index.search(query, 10, **options), twin.search(query, 10, **options)
            assert found.exact
            agree(found, expected, "likelihoods")
    assert found.candidates <= len(twin) < 200
    index.close()
    with connect(url) as index:
        agree(index.search(query, 10, **options), expected, "likelihoods")
    twin.close()


def test_a_search_by_mean_is_that_of_a_directory(make, urls, tmp_path):
    url, matcher = urls(), Matcher(scale=2.0, offset=1.0, base_rate=0.5)
    if url.startswith("milvus:") and make.__name__ != "draws_of_gaussians":
        pytest.skip("one family is enough for the slowest server")
    query, options = make(7, seed=100), {"by": "mean", "matcher": matcher}
    with connect(url, create=True) as index, LocalIndex.create(tmp_path / "twin") as twin:
        for gallery in (index, twin):
            gallery.add([f"{n}" for n in range(120)], make(120))
            gallery.add([f"{n}" for n in range(90, 190)], make(100, seed=1))
            gallery.remove([f"{n}" for n in range(0, 190, 3)])
        for k in (10, 500):
            found, expected = index.search(query, k, **options), twin.search(query, k, **options)
            assert found.exact  # all of so few are candidates
            agree(found, expected)


def test_by_mean_a_server_says_what_it_has_not_proved(servers):
    url, location = servers(), torch.randn(900, 8, generator=torch.Generator().manual_seed(0))
    scale = torch.full((900, 1), 0.1)
    scale[0] = 100.0  # so uncertain that no server thinks it near
    with connect(url, create=True) as index:
        index.add([f"{n}" for n in range(900)], Gaussian(location, scale))
        found = index.search(Gaussian(location[:1] + 0.01, scale[1:2]), 10, by="mean")
        near = torch.cdist(location[:1] + 0.01, location)[0].argsort()[1:11].tolist()
        assert (found.exact, found.candidates) == (False, 200)
        assert found.ids.tolist() == [[f"{n}" for n in near]]
        assert index.search(Gaussian(location[:1], scale[:1]), 150, by="mean").candidates == 300
    with connect(servers(), create=True) as index:  # where there is no uncertainty, the server knows as much as we do
        index.add([f"{n}" for n in range(900)], Point(location))
        found, other = (index.search(Gaussian(location[:2], scale[:2]), 10, by=by) for by in ("mean", "distance"))
        assert found.ids.tolist() == other.ids.tolist()
        assert found.exact == other.exact == url.startswith("postgresql:")
        np.testing.assert_allclose(found.distances[:, 0], 0, atol=1e-6)


@pytest.mark.parametrize("scales", [1, 16])
def test_candidates_by_shrunk_means_find_the_likely_and_say_what_they_are(urls, tmp_path, scales, monkeypatch):
    url = urls()
    if url.startswith("milvus:") and scales > 1:
        pytest.skip("one case is enough for the slowest server")
    monkeypatch.setattr(remote_likelihood, "SMALL", 1000)
    monkeypatch.setattr(remote_likelihood, "COUNTS", (50, 200))
    generator = torch.Generator().manual_seed(scales)
    identities = torch.randn(240, 16, generator=generator).repeat_interleave(5, 0)
    scale = 10 ** (torch.rand(1200, scales, generator=generator) - 0.75)
    embedding = Gaussian(identities + scale * torch.randn(1200, 16, generator=generator), scale)
    prior, ids = Prior(torch.zeros(16), torch.ones(1)), [f"{n}" for n in range(1200)]
    query, options = embedding[::40], {"by": "likelihood", "matcher": Matcher(scale=0.3, offset=1.0, base_rate=0.5)}
    with LocalIndex.create(tmp_path / "twin") as twin, connect(url, create=True) as index:
        for gallery in (twin, index):
            gallery.add(ids[:600], embedding[:600])
            gallery.set_prior(prior)
            gallery.add(ids[600:], embedding[600:])
        wanted = twin.search(query, 10, approximate=False, **options)
        agree(index.search(query, 10, approximate=False, **options), wanted, "likelihoods")
        index.compact()
        found = index.search(query, 10, **options)
        if isinstance(index, RemoteIndex):
            assert not found.exact
            assert found.candidates == (50 if scales == 1 else 200)  # shrunk means tell less where variances differ
            assert 0.95 <= found.recall <= 1
    hits = 0
    for row in range(30):
        best = dict(zip(wanted.ids[row], wanted.probabilities[row], strict=True))
        both = [rank for rank, name in enumerate(found.ids[row]) if name in best]
        hits += len(both)
        np.testing.assert_allclose(
            found.probabilities[row, both], [best[found.ids[row, rank]] for rank in both], rtol=1e-9
        )
    assert hits >= 285


def test_a_search_by_likelihood_says_what_it_lacks(urls, monkeypatch):
    url, query = urls(), Gaussian(torch.zeros(1, 1), torch.ones(1, 1))
    with connect(url, create=True) as index:
        assert index.search(query, 3, by="likelihood").ids.shape == (1, 0)
        index.add(["a", "b"], Gaussian(torch.zeros(2, 1), torch.ones(2, 1)))
        with pytest.raises(
            GalleryError, match=r"expected a prior over identities, got none in this gallery; index.set"
        ):
            index.search(query, by="likelihood")
        with pytest.raises(InputError, match="dimension of the prior: expected 1, as the embeddings, got 2"):
            index.set_prior(Prior(torch.zeros(2), torch.ones(2)))
        with pytest.raises(InputError, match="by: expected distance or likelihood or mean, got 'luck'"):
            index.search(query, by="luck")
        for by in ("distance", "mean"):
            with pytest.raises(InputError, match="approximate: expected None"):
                index.search(query, by=by, approximate=True)
    with connect(urls(), create=True) as index:
        index.set_prior(Prior(torch.zeros(2), torch.ones(2)))
        with pytest.raises(InputError, match="dimension of the prior"):
            index.add(["a"], points(1))
        assert len(index) == 0


def test_a_gallery_of_the_first_version_gets_shrunk_means_with_its_prior(servers, monkeypatch):
    monkeypatch.setattr(remote_likelihood, "SMALL", 1)
    url, prior = servers(), Prior(torch.zeros(1), torch.ones(1))
    query, three = Gaussian(torch.ones(1, 1), torch.ones(1, 1)), Gaussian(torch.arange(3.0)[:, None], torch.ones(3, 1))
    with connect(url, create=True) as index:
        index.add(list("abc"), three)
        notes = index._server.notes()
        del notes["shrunk"]
        index._server.write_notes({**notes, "schema": 1, "prior": prior.to_json()})
    with connect(url, write=True) as index:
        index.add(["d"], three[:1])  # as before
        with pytest.raises(
            GalleryError, match=r"got none in a gallery of version 1 .*; open it .*index.set_prior\(ind"
        ):
            index.search(query, by="likelihood")
        assert index.search(query, by="likelihood", approximate=False).exact  # which needs none
        index.set_prior(index.prior)
        index.add(["e"], three[1:2])
        assert index.search(query, by="likelihood").ids.tolist() == [list("cbead")]
        assert index._server.notes()["schema"] == 2


def test_a_search_of_everything_is_exact(urls):
    with connect(urls(), create=True) as index:
        assert index.search(points(1), 3).ids.shape == (1, 0)
        assert (len(index), index.ids(), index.references(["x"])) == (0, [], [0])
        index.add(list("dcba"), Point(torch.zeros(4, 3)))
        index.add(["c"], Point(torch.zeros(1, 3)))
        found = index.search(Point(torch.ones(2, 3)), 9)
        assert found.ids.tolist() == [list("dbac")] * 2  # in order of insertion; a replaced item is new
        assert found.exact
        assert found.candidates == 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_moments_come_back_bit_for_bit(urls, dtype):
    generator = torch.Generator().manual_seed(3)
    embedding = Gaussian(
        torch.randn(5, 4, generator=generator).to(dtype), torch.rand(5, 4, generator=generator).to(dtype)
    )
    with connect(urls(), create=True) as index:
        index.add(list("abcde"), embedding)
        same(index.get(list("ca")), embedding[[2, 0]])
        same(index.embedding()[1], embedding)


ODD = ["", " ", "ö/ü 漢字 🐈", "line\nbreak", "tab\tand\\slash", "'; DROP TABLE items; --", '"quoted"', "é", "e\u0301"]


def test_odd_names_are_names_like_others(urls):
    url = urls()
    with connect(url, create=True, about={"model": "ö", "deep": [1, {"x": None}]}) as index:
        index.add(ODD, points(*range(len(ODD))), labels=ODD, metadata=[{"\0": [name, 1.5, None]} for name in ODD])
    with connect(url, write=True) as index:
        assert index.about == {"model": "ö", "deep": [1, {"x": None}]}
        assert index.ids() == ODD == index.labels(ODD)
        assert index.items(["", " "])[0] == Item("", "", {"\0": ["", 1.5, None]})
        assert index.references(ODD) == [1] * len(ODD)
        assert index.present([*ODD[::2], "x"]) == set(ODD[::2])
        assert "é" in index
        assert 3 not in index
        assert [index.search(points(number), 1).ids[0, 0] for number in (0, 5, 8)] == [ODD[0], ODD[5], ODD[8]]
        assert index.remove(ODD[:5]) == 5
        assert index.ids() == ODD[5:]
        index.describe({"model": "new"})
        assert index.about == {"model": "new"}


def test_what_is_wrong_is_said_and_changes_nothing(urls):
    url = urls()
    with pytest.raises(GalleryError, match=r"expected a .*, got none; create it first"):
        connect(url)
    with connect(url, create=True) as index:
        index.add(["a", "b"], points(1, 2))
        before = index.changes
        for call in (index.remove, index.items, index.get, index.labels):
            with pytest.raises(GalleryError, match="expected items of the gallery, got 'c', 'd'"):
                call(["a", "c", "d"])
        with pytest.raises(GalleryError, match=r"expected point of float32 with location \(1,\) per item, got"):
            index.add(["c"], Point(torch.zeros(1, 2)))
        with pytest.raises(InputError, match="each id once"):
            index.add(["c", "c"], points(1, 2))
        with pytest.raises(InputError, match="dimension of the query: expected 1, as in the gallery, got 2"):
            index.search(Point(torch.zeros(1, 2)))
        with pytest.raises(InputError, match="k: expected 1 or more"):
            index.search(points(1), 0)
        assert (index.ids(), index.changes) == (["a", "b"], before)
        index.add(["c"], points(3))
        assert index.changes > before
    with pytest.raises(GalleryError, match="closed"):
        index.add(["d"], points(1))
    with connect(url) as reader, pytest.raises(GalleryError, match="expected an index open for writing"):
        reader.remove(["a"])


def test_a_reader_sees_a_change_at_its_next_call(urls):
    url = urls()
    with connect(url, create=True) as writer, connect(url) as reader:
        assert len(reader) == 0
        for step in range(4):
            writer.add([f"{step}", "same"], points(step, 10 * step))
            assert len(reader) == step + 2
            assert reader.search(points(10 * step), 1).ids.tolist() == [["same" if step else "0"]]
        writer.remove(["same"])
        assert "same" not in reader
        assert reader.search(points(30), 1).ids.tolist() == [["3"]]


def test_identities_are_counted_without_a_look_at_all_items(servers, monkeypatch):
    labels = [f"label {n // 5}" for n in range(300)] + [None] * 40
    url = servers()
    with connect(url, create=True) as index:
        assert (index.count_identities(), index.sample(3)) == (0, [])
        index.add([f"{n}" for n in range(340)], points(*range(340)), labels=labels)
        assert sorted(index.sample(1000)) == sorted(index.ids())
        monkeypatch.setattr(type(index), "ids", None)
        assert index.count_identities() == 100
        monkeypatch.setattr(importlib.import_module("howsure.index.index"), "SAMPLE", 120)
        assert index.count_identities() == 100  # counted once for each state of the items
    with connect(url) as index:
        assert len(index.sample(120)) == 120
        assert index.count_identities() == pytest.approx(100, abs=15)  # three standard errors
        assert index.count_identities() != 100


def test_a_gallery_anywhere_can_be_asked(urls):
    with connect(urls(), create=True) as index:
        assert ask(index, points(1), policy=None)[0].answer.kind == "unknown"
        index.add(["a", "b"], points(1, 5), labels=["x", None])
        (finding,) = ask(index, points(2), policy=None, matcher=Matcher(scale=1.0, offset=2.0, base_rate=0.5))
        assert [(match.id, match.label) for match in finding.matches] == [("a", "x"), ("b", None)]
        assert finding.exact
