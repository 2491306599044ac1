"""A search by likelihood is a full comparison in float64 wherever it says so, whatever happened to the gallery."""

import json

import numpy as np
import pytest
import torch

from howsure import Draws, Gaussian, Matcher, Point, VonMisesFisher, cat, expected_similarity, rms_distance
from howsure.errors import GalleryError, InputError
from howsure.index import LocalIndex
from howsure.index.local import index as index_module
from howsure.index.local import likelihood_scan as likely
from howsure.index.local import snapshot
from howsure.index.ranking.shrunk_keys import ShrunkQuery, shrunk_rows, shrunk_width
from howsure.prior import Prior, log_likelihood_ratio

ONE = Prior(torch.zeros(6), torch.ones(1))
EACH = Prior(torch.linspace(-1, 1, 6), torch.linspace(0.5, 3, 6))


def embeddings(count, *, seed=0, dim=6, scales=1, per_identity=5):
    """Pictures of identities ~ N(0, 1), variances over two decades, with one scale or one for each dimension."""
    generator = torch.Generator().manual_seed(seed)
    identities = torch.randn(-(-count // per_identity), dim, generator=generator).repeat_interleave(per_identity, 0)
    scale = 10 ** (torch.rand(count, scales, generator=generator) - 0.75)
    return Gaussian(identities[:count] + scale * torch.randn(count, dim, generator=generator), scale)


def check_search(index, model, query, k, prior, **options):
    """Compare with brute force; model is {id: embedding of one item} in the order of insertion."""
    matches = index.search(query, k, by="likelihood", **options)
    k = min(k, len(model))
    assert matches.ids.shape == (len(query), k)
    assert matches.exact
    if not model:
        return matches
    gallery, query = cat(list(model.values())).to(dtype=torch.float64), query.to(dtype=torch.float64)
    full = log_likelihood_ratio(query, gallery, prior).numpy()
    np.testing.assert_allclose(matches.likelihoods, -np.sort(-full, 1)[:, :k], rtol=1e-9, atol=1e-9)
    names = {name: position for position, name in enumerate(model)}
    for row, found in enumerate(matches.ids):
        assert len(set(found)) == k
        positions = [names[name] for name in found]
        np.testing.assert_allclose(full[row, positions], matches.likelihoods[row], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(rms_distance(query[row], gallery[positions])[0], matches.distances[row], rtol=1e-9)
        np.testing.assert_allclose(matches.uncertainty[row], gallery[positions].uncertainty, rtol=1e-12)
    return matches


@pytest.mark.parametrize("prior", [ONE, EACH], ids=["one variance", "per dimension"])
def test_search_is_brute_force_after_any_history(make, path, prior, monkeypatch):
    monkeypatch.setattr(index_module, "LEAST", 40)  # so that snapshots happen by themselves too
    rng = np.random.default_rng(len(prior.between))
    model, index = {}, LocalIndex.create(path)
    index.set_prior(EACH)
    for step in range(32):
        action = rng.choice(["add", "add", "remove", "compact", "reopen", "prior"])
        if action == "add":
            ids = [f"item {n}" for n in rng.choice(120, size=rng.integers(1, 25), replace=False)]
            batch = make(len(ids), seed=step)
            index.add(ids, batch)
            for position, name in enumerate(ids):
                model.pop(name, None)
                model[name] = batch[position]
        elif action == "remove" and model:
            gone = rng.choice(list(model), size=rng.integers(1, len(model) // 2 + 2), replace=False).tolist()
            index.remove(gone)
            for name in gone:
                del model[name]
        elif action == "compact":
            index.compact()
        elif action == "reopen":
            index.close()
            index = LocalIndex.open(path, write=True)
            assert index.recovered is None
        elif action == "prior":
            index.set_prior(Prior(prior.centre, prior.between + step))
        if step % 4 == 0:
            query = embeddings(7, seed=step, scales=1 + 5 * (step % 8 == 0))
            check_search(index, model, query[:1], 5, index.prior, approximate=False)
            check_search(index, model, query, 7, index.prior)  # a small gallery is compared as a whole
    index.close()


@pytest.mark.parametrize("queries", [1, 20])
def test_one_variance_each_is_proved_from_few_candidates(path, queries):
    with LocalIndex.create(path) as index:
        index.set_prior(ONE)
        old, new = embeddings(6000, seed=1), embeddings(800, seed=2)
        index.add([f"old {n}" for n in range(6000)], old)
        index.compact()
        index.add([f"new {n}" for n in range(800)], new)
        index.remove([f"old {n}" for n in range(0, 6000, 3)] + ["new 0"])
        model = {f"old {n}": old[n] for n in range(6000) if n % 3} | {f"new {n}": new[n] for n in range(1, 800)}
        matches = check_search(index, model, embeddings(queries, seed=3, per_identity=1), 10, ONE)
        assert matches.candidates < 20
        assert matches.recall is None
        check_search(index, model, Point(embeddings(queries, seed=4).location), 10, ONE)


def test_embeddings_with_a_variance_for_each_dimension_are_found_near_their_shrunk_means(path):
    gallery, query = embeddings(3000, seed=1, dim=32, scales=32), embeddings(40, seed=1, dim=32, scales=32)
    prior = Prior(torch.zeros(32), torch.ones(32))
    with LocalIndex.create(path) as index:
        index.set_prior(prior)
        index.add([f"{n}" for n in range(3000)], gallery)
        wanted = index.search(query, 10, by="likelihood", approximate=False)
        found = index.search(query, 10, by="likelihood")
        assert wanted.exact
        assert wanted.candidates == 3000
        assert not found.exact
        assert found.candidates == 200
        shared = np.mean([len(set(a) & set(b)) for a, b in zip(wanted.ids, found.ids, strict=True)]) / 10
        assert shared > 0.9
        near = index.search(query, 200)  # plain distance is no way to the likely ones
        assert np.mean([len(set(a) & set(b)) for a, b in zip(wanted.ids, near.ids, strict=True)]) / 10 < shared - 0.1


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("decades", [0.0, 1.0, 4.0])
@pytest.mark.parametrize(("count", "k"), [(40, 3), (5000, 1), (5000, 25)])
def test_the_scan_never_drops_one_of_the_best(count, k, decades, offset):
    rng = np.random.default_rng(count + k)
    dim, prior = 24, Prior(torch.full((24,), 1.0 + offset), torch.tensor([2.0]))
    scale = torch.from_numpy(10 ** rng.uniform(-decades, 0.2, (count, 1)))
    gallery = Gaussian(torch.from_numpy(offset + 1.5 * rng.normal(size=(count, dim))), scale)
    gallery = cat([gallery, gallery[:5]])  # and ties
    query = Gaussian(gallery.location[:6] + 0.1, scale[:6])
    rows = shrunk_rows(gallery, prior)
    order = np.argsort(rows[:, dim + 2], kind="stable")
    cut = count - 7  # the last are newer
    old, new = order[order < cut], np.arange(cut, len(rows))
    largest = float(np.sqrt(rows[:, dim].max()))
    asked = ShrunkQuery.from_query(query, prior, 1)
    found = likely.most_likely(asked, k, rows[old], rows[new], largest=largest)
    positions = np.concatenate([old, new])[found.row]
    true = log_likelihood_ratio(query, gallery, prior).numpy()
    alone = prior.log_density(query).numpy() + dim / 2 * np.log(2 * np.pi)
    scores = true + alone[:, None]
    assert (found.low <= scores[found.query, positions]).all()
    assert (found.high >= scores[found.query, positions]).all()
    for row in range(6):
        here = positions[found.query == row]
        assert len(np.unique(here)) == len(here)
        worst = np.sort(scores[row])[-k]
        assert set(np.flatnonzero(scores[row] > worst + 1e-9)) <= set(here)
        assert (scores[row, here] >= worst - 1e-9).sum() >= k
        if count > 1000 and not offset:
            assert len(here) < 3 * k + 20


def test_ties_come_in_order_of_insertion(path):
    same = Gaussian(torch.zeros(4, 6), torch.ones(4, 1))
    with LocalIndex.create(path) as index:
        index.set_prior(ONE)
        index.add(list("dcba"), same)
        index.compact()
        index.add(["c"], same[:1])
        assert index.search(same[:2], 4, by="likelihood").ids.tolist() == [list("dbac")] * 2


def test_unsure_items_are_tolerated_by_likelihood_and_punished_by_distance(path):
    location = torch.zeros(2, 6)
    location[0, 0] = 2.5
    with LocalIndex.create(path) as index:
        index.set_prior(ONE)
        index.add(["sure, elsewhere", "unsure, here"], Gaussian(location, torch.tensor([[0.1], [1.5]])))
        query = Gaussian(torch.zeros(1, 6), torch.full((1, 1), 0.1))
        assert index.search(query, 1).ids.tolist() == [["sure, elsewhere"]]
        assert index.search(query, 1, by="likelihood").ids.tolist() == [["unsure, here"]]


def test_a_matcher_of_the_evidence_speaks(path):
    with LocalIndex.create(path) as index:
        index.set_prior(ONE)
        index.add(["a", "b"], embeddings(2))
        matches = index.search(
            embeddings(1), 2, by="likelihood", matcher=Matcher(scale=0.5, offset=-1.0, base_rate=0.5)
        )
        np.testing.assert_allclose(matches.probabilities, 1 / (1 + np.exp(1 - 0.5 * matches.likelihoods)))
        assert (np.diff(matches.probabilities) < 0).all()


def test_by_distance_is_by_cosine_on_the_sphere(path):
    """E|z - z'|² = 2 - 2 E[z · z'] there, so a ranking by expected cosine needs nothing of its own."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.nn.functional.normalize(torch.randn(300, 5, generator=generator, dtype=torch.float64), dim=1)
    sphere = VonMisesFisher(direction, 100 * torch.rand(300, generator=generator, dtype=torch.float64))
    with LocalIndex.create(path) as index:
        index.add([f"{n}" for n in range(300)], sphere)
        matches = index.search(sphere[:9], 20)
        cosine = expected_similarity(sphere[:9], sphere)
        assert matches.ids.tolist() == [
            [f"{n}" for n in row] for row in cosine.argsort(1, descending=True)[:, :20].tolist()
        ]


def test_a_prior_survives_and_a_new_one_needs_no_new_embedding(path):
    gallery, query = embeddings(300), embeddings(4, seed=9)
    model = {f"{n}": gallery[n] for n in range(300)}
    with LocalIndex.create(path) as index:
        assert index.prior is None
        index.add(list(model), gallery)
        with pytest.raises(GalleryError, match=r"expected a prior over identities, got none.*set_prior\(Prior.fit"):
            index.search(query, by="likelihood")
        index.set_prior(ONE)
        check_search(index, model, query, 5, ONE)
        with LocalIndex.open(path) as reader:
            check_search(reader, model, query, 5, ONE)
            index.set_prior(EACH)
            check_search(reader, model, query, 5, EACH)
            assert reader.prior.version == EACH.version
    with LocalIndex.open(path) as index:
        assert index.recovered is None
        check_search(index, model, query, 5, EACH)
        np.testing.assert_array_equal(index.embedding()[1].location, gallery.location)


def test_a_prior_noted_before_a_crash_is_used_after_it(path, monkeypatch):
    gallery, query = embeddings(300), embeddings(4, seed=9)
    model = {f"{n}": gallery[n] for n in range(300)}
    with LocalIndex.create(path) as index:
        index.add(list(model), gallery)
        index.set_prior(ONE)

        def full_disk(*_):
            raise OSError("no space left")

        with monkeypatch.context() as broken:
            broken.setattr(snapshot, "publish", full_disk)
            with pytest.raises(GalleryError, match="no space left; all items are safe"):
                index.set_prior(EACH)
        check_search(index, model, query, 5, EACH)
        index._disconnect()  # without close(), as in a crash
    with LocalIndex.open(path) as reader:
        assert "it was made with another prior" in reader.recovered
        check_search(reader, model, query, 5, EACH)
    with LocalIndex.open(path, write=True) as index:
        assert index.recovered == "rebuilt the snapshot: it was made with another prior"
        check_search(index, model, query, 5, EACH)
    with LocalIndex.open(path) as index:
        assert index.recovered is None
        assert json.loads((path / "snapshot.json").read_text())["prior"] == EACH.version


def test_a_gallery_from_before_priors_opens(path):
    with LocalIndex.create(path) as index:
        index.add(["a"], embeddings(1))
        index.compact()
        assert "prior" not in json.loads((path / "snapshot.json").read_text())
    with LocalIndex.open(path, write=True) as index:
        assert index.recovered is None
        index.set_prior(ONE)
        assert index.search(embeddings(1), by="likelihood").ids.tolist() == [["a"]]


def test_one_side_may_have_a_single_draw(path, tmp_path):
    draws = Draws.stack([embeddings(30, seed=s) for s in range(3)])
    with LocalIndex.create(path) as single, LocalIndex.create(tmp_path / "draws") as many:
        for index, gallery, query in ((single, embeddings(50), draws[:5]), (many, draws, embeddings(5))):
            index.set_prior(ONE)
            ids = [f"{n}" for n in range(len(gallery))]
            index.add(ids, gallery)
            check_search(index, dict(zip(ids, gallery, strict=True)), query, 3, ONE)
        with pytest.raises(InputError, match="draws of the query: expected 3"):
            many.search(draws.rebuild({n: t[:, :2] for n, t in draws.tensors().items()}), 1, by="likelihood")


def test_bad_requests_are_refused(path):
    with LocalIndex.create(path) as index:
        index.set_prior(ONE)
        with pytest.raises(InputError, match="dimension of the prior: expected 4"):
            index.add(["a"], embeddings(1, dim=4))
        assert index.search(embeddings(2), by="likelihood").ids.shape == (2, 0)
        index.add(["a", "b"], embeddings(2))
        with pytest.raises(InputError, match="dimension of the prior: expected 6, as the embeddings, got 2"):
            index.set_prior(Prior(torch.zeros(2), torch.ones(1)))
        with pytest.raises(InputError, match="dimension of the query: expected 6"):
            index.search(embeddings(1, dim=4), by="likelihood")
        with pytest.raises(InputError, match="NaN or infinity"):
            index.search(Point(torch.full((1, 6), torch.nan)), by="likelihood")
        with pytest.raises(InputError, match="by: expected distance or likelihood or mean, got 'cosine'"):
            index.search(embeddings(1), by="cosine")
        with pytest.raises(InputError, match="approximate: expected None or False by distance"):
            index.search(embeddings(1), approximate=True)
        with LocalIndex.open(path) as reader, pytest.raises(GalleryError, match="expected an index open for writing"):
            reader.set_prior(ONE)
    with LocalIndex.create(path.with_name("points")) as index:
        index.set_prior(ONE)
        index.add(["a"], Point(torch.zeros(1, 6)))
        with pytest.raises(InputError, match="expected embeddings with some variance, got two points"):
            index.search(Point(torch.ones(1, 6)), by="likelihood")


def test_rows_hold_what_they_say(make):
    gallery, query = make(20, seed=1), make(7, seed=2).to(dtype=torch.float64)
    draws = len(gallery.by_draw())
    rows, asked = shrunk_rows(gallery, EACH), ShrunkQuery.from_query(query, EACH, draws)
    assert rows.shape == (20, shrunk_width(draws, 6))
    squared = torch.stack(
        [
            (a.mean[:, None] - b.mean).square().sum(-1)
            for a, b in zip(query.by_draw(), EACH.shrink(gallery.to(dtype=torch.float64)).by_draw(), strict=True)
        ]
    ).mean(0)
    products = asked.keys.astype(float) @ rows.T.astype(float)
    np.testing.assert_allclose(asked.half[:, None] - products, squared / 2, rtol=1e-4, atol=1e-5)
