"""An inverted file (IVF): quicker, never the truth, and its recall is what it says."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from howsure import Draws, Gaussian, Point
from howsure.errors import InputError
from howsure.index import LocalIndex
from howsure.index.local import engine as embedded
from howsure.index.local import ivf, likelihood
from howsure.index.local import ivf_tuning as tune
from howsure.prior import Prior, log_likelihood_ratio

DIM, COUNT = 12, 3000
ONE = Prior(torch.zeros(DIM), torch.ones(1))
EACH = Prior(torch.zeros(DIM), torch.linspace(0.8, 1.2, DIM))
PRIORS = pytest.mark.parametrize("prior", [ONE, EACH], ids=["proved", "near"])


@pytest.fixture(autouse=True)
def _small_ivf(monkeypatch):
    for module in (ivf, tune, embedded):
        monkeypatch.setattr(module, "FROM", 1000)
    monkeypatch.setattr(likelihood, "SMALL", 500)


def gallery(count=COUNT, seed=0):
    """Five pictures of each identity; identities in clusters. The seed changes the pictures, not the identities."""
    generator = torch.Generator().manual_seed(7)
    clusters = torch.randn(30, DIM, generator=generator)
    identities = clusters[torch.arange(600) % 30] + 0.3 * torch.randn(600, DIM, generator=generator)
    generator = torch.Generator().manual_seed(seed)
    means = identities[torch.arange(count) // 5]
    scale = 10 ** (torch.rand(count, 1, generator=generator) - 1.5)
    return Gaussian(means + scale * torch.randn(count, DIM, generator=generator), scale)


def ids(count, name=""):
    return [f"{name}{n}" for n in range(count)]


def shared(a, b):
    return float(np.mean([len(set(x) & set(y)) / len(y) for x, y in zip(a.ids, b.ids, strict=True)]))


@PRIORS
def test_an_ivf_finds_most_and_says_how_much(path, prior):
    query = gallery(150, seed=1)
    with LocalIndex.create(path) as index:
        index.set_prior(prior)
        index.add(ids(COUNT), gallery())
        assert index.search(query, 10, by="likelihood", approximate=True).exact == (prior is ONE)  # no IVF yet
        index.compact()
        found = index.search(query, 10, by="likelihood", approximate=True)
        truth = index.search(query, 10, by="likelihood", approximate=False)
        assert truth.exact
        assert truth.recall is None
        assert not found.exact
        assert found.recall >= likelihood.TARGET
        assert shared(found, truth) == pytest.approx(found.recall, abs=0.05)
        assert found.candidates <= 200
        default = index.search(query, 10, by="likelihood")
        assert default.exact == (prior is ONE)
        assert (default.recall is None) == default.exact
    with LocalIndex.open(path) as index:
        assert index.recovered is None
        again = index.search(query, 10, by="likelihood", approximate=True)
        assert again.ids.tolist() == found.ids.tolist()
        assert again.recall == found.recall


@PRIORS
@pytest.mark.parametrize("batch", [True, False], ids=["batch", "singles"])
def test_all_cells_are_the_whole_gallery(path, prior, batch):
    query = gallery(20, seed=1)
    with LocalIndex.create(path) as index:
        index.set_prior(prior)
        index.add(ids(COUNT), gallery())
        index.compact()
        shrunk = index._replica.engine.shrunk
        shrunk.ivf = replace(shrunk.ivf, probes=shrunk.ivf.index.nlist, count=COUNT)
        for part in [query] if batch else [query[number] for number in range(len(query))]:
            found = index.search(part, 10, by="likelihood", approximate=True)
            truth = index.search(part, 10, by="likelihood", approximate=False)
            assert truth.exact
            assert not found.exact
            assert found.ids.tolist() == truth.ids.tolist()
            np.testing.assert_allclose(found.likelihoods, truth.likelihoods, rtol=1e-12)
            np.testing.assert_allclose(found.distances, truth.distances, rtol=1e-12)


def test_a_query_of_draws_is_more_than_its_first(path):
    draws = [Gaussian(gallery(4, seed=seed).location, torch.full((4, 1), 0.2)) for seed in (1, 2)]
    with LocalIndex.create(path) as index:
        index.set_prior(ONE)
        index.add(ids(COUNT), gallery())
        index.compact()
        for number in range(4):
            query = Draws.stack([draw[number] for draw in draws])
            found = index.search(query, 1, by="likelihood", approximate=True)
            best = index.get(found.ids[0].tolist())
            np.testing.assert_allclose(found.likelihoods, log_likelihood_ratio(query, best, ONE), rtol=1e-5)


def change_nothing(index):
    pass


def remove_some(index):
    index.remove(ids(COUNT)[::3])


def add_some(index):
    index.add(ids(30, "new "), gallery(30, seed=2))


@PRIORS
@pytest.mark.parametrize("change", [change_nothing, remove_some, add_some])
def test_one_query_finds_what_it_finds_among_others(path, prior, change):
    query = gallery(40, seed=1)
    with LocalIndex.create(path) as index:
        index.set_prior(prior)
        index.add(ids(COUNT), gallery())
        index.compact()
        change(index)
        for k in (1, 10, 200):
            batch = index.search(query, k, by="likelihood", approximate=True)
            ones = [index.search(query[number], k, by="likelihood", approximate=True) for number in range(len(query))]
            assert [one.ids[0].tolist() for one in ones] == batch.ids.tolist()
            for name in ("likelihoods", "distances"):
                values = np.concatenate([getattr(one, name) for one in ones])
                np.testing.assert_allclose(values, getattr(batch, name), rtol=1e-12)


@pytest.mark.parametrize("bad", [{"location": torch.nan}, {"location": 1e20}, {"scale": torch.nan}])
def test_an_ivf_refuses_a_query_that_is_no_embedding(path, bad):
    fields = {"location": torch.zeros(1, DIM), "scale": torch.ones(1, 1)}
    fields |= {name: torch.full_like(fields[name], value) for name, value in bad.items()}
    with LocalIndex.create(path) as index:
        index.set_prior(ONE)
        index.add(ids(COUNT), gallery())
        index.compact()
        with pytest.raises(InputError):
            index.search(Gaussian(**fields), by="likelihood", approximate=True)


def test_large_galleries_use_an_ivf_by_default(path, monkeypatch):
    monkeypatch.setattr(likelihood, "LARGE", COUNT)
    with LocalIndex.create(path) as index:
        index.set_prior(ONE)
        index.add(ids(COUNT), gallery())
        index.compact()
        assert not index.search(gallery(2), by="likelihood").exact
        assert index.search(gallery(2), by="likelihood", approximate=False).exact
        assert index.search(gallery(2)).exact
        index.remove(["0"])
        assert index.search(gallery(2), by="likelihood").exact


@PRIORS
def test_an_ivf_lives_with_changes(path, prior):
    query = gallery(40, seed=1)
    with LocalIndex.create(path) as index:
        index.set_prior(prior)
        index.add(ids(COUNT), gallery())
        index.compact()
        first = index.search(query, 3, by="likelihood", approximate=True)
        gone = sorted(set(first.ids[:, 0]))
        index.remove(gone)
        after = index.search(query, 3, by="likelihood", approximate=True)
        assert not set(after.ids.ravel()) & set(gone)
        assert shared(after, index.search(query, 3, by="likelihood", approximate=False)) > 0.9
        index.add(ids(40, "new "), query)  # what is newer is always found
        newest = index.search(query, 1, by="likelihood", approximate=True)
        assert np.mean([found.startswith("new ") for found in newest.ids[:, 0]]) > 0.6
        everything = index.search(query[:2], 2900, by="likelihood", approximate=True)
        assert everything.ids.shape == (2, 2900)  # more than the cells that are read hold
        assert len(set(everything.ids[0])) == 2900


def flip(path):
    (file,) = path.glob("*.faiss")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    return "checksum mismatch"


def delete(path):
    (file,) = path.glob("*.faiss")
    file.unlink()
    return "its file is missing"


def forget(path):
    (path / ivf.MANIFEST).unlink()
    return "it is missing"


def garble(path):
    (path / ivf.MANIFEST).write_bytes(b"\x00")
    return "its manifest is unreadable"


def mistake(path):
    manifest = json.loads((path / ivf.MANIFEST).read_text())
    del manifest["manifest_checksum"]
    ivf.write_manifest(path / ivf.MANIFEST, {**manifest, "of": 1})
    return "it is of another snapshot"


@pytest.mark.parametrize("damage", [flip, delete, forget, garble, mistake])
def test_a_damaged_ivf_is_rebuilt_and_reported(path, damage):
    query = gallery(9, seed=3)
    with LocalIndex.create(path) as index:
        index.set_prior(ONE)
        index.add(ids(COUNT), gallery())
        index.compact()
        found = index.search(query, by="likelihood", approximate=True)
    reason = damage(path)
    with LocalIndex.open(path) as reader:
        assert re.search(f"the IVF is of no use: {reason}", reader.recovered)
        assert reader.search(query, by="likelihood", approximate=True).exact  # all rows were read
    with LocalIndex.open(path, write=True) as index:
        assert index.recovered == f"rebuilt the IVF: {reason}"
        assert index.search(query, by="likelihood", approximate=True).ids.tolist() == found.ids.tolist()
    with LocalIndex.open(path) as index:
        assert index.recovered is None
        assert not index.search(query, by="likelihood", approximate=True).exact


def test_a_new_snapshot_and_a_new_prior_make_a_new_ivf(path):
    with LocalIndex.create(path) as index:
        index.set_prior(ONE)
        index.add(ids(COUNT), gallery())
        for change in (
            index.compact,
            lambda: index.set_prior(EACH),
            lambda: index.add(ids(3), gallery(3)),
            index.compact,
        ):
            change()
        assert len(list(path.glob("*.faiss*"))) == 1
    with LocalIndex.open(path) as index:
        assert index.recovered is None
        assert not index.search(gallery(1), by="likelihood", approximate=True).exact


def test_a_gallery_of_points_has_no_ivf_but_is_searched(path):
    with LocalIndex.create(path) as index:
        index.set_prior(ONE)
        index.add(ids(COUNT), Point(gallery().location))
        index.compact()
        assert not list(path.glob("*.faiss"))
        assert index.search(gallery(3, seed=1), by="likelihood").exact
    with LocalIndex.open(path, write=True) as index:
        assert index.search(gallery(3, seed=1), by="likelihood", approximate=True).exact


def test_data_without_structure_get_an_honest_figure(path, monkeypatch):
    monkeypatch.setattr(tune, "PROBES", (1, 2))
    generator = torch.Generator().manual_seed(0)
    noise = Gaussian(torch.randn(COUNT, DIM, generator=generator), torch.full((COUNT, 1), 0.7))
    with LocalIndex.create(path) as index:
        index.set_prior(ONE)
        index.add(ids(COUNT), noise)
        index.compact()
        query = noise[torch.arange(0, 200)]
        found = index.search(query, 11, by="likelihood", approximate=True)
        assert found.recall < 0.6
        monkeypatch.setattr(likelihood, "LARGE", COUNT)
        assert index.search(query, 11, by="likelihood").exact  # an IVF that finds too little is not used unasked
        assert shared(found, index.search(query, 11, by="likelihood")) == pytest.approx(found.recall, abs=0.12)
