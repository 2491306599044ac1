"""Rows for embeddings with a variance in each dimension: what they say, and that they find what shrunk means miss."""

import numpy as np
import torch

from howsure import Gaussian
from howsure.index import LocalIndex
from howsure.index.local.scan import largest_products
from howsure.index.ranking.shrunk_keys import ShrunkQuery, shrunk_rows
from howsure.index.ranking.weighted_keys import Typical
from howsure.prior import Prior, log_likelihood_ratio

DIM, COUNT = 32, 4000
PRIOR = Prior(torch.linspace(-1, 1, DIM), torch.ones(DIM))


def embeddings(count, seed, *, scale=None):
    """Five pictures of each identity, every dimension of each with a variance of its own, over two decades."""
    generator = torch.Generator().manual_seed(seed)
    identities = PRIOR.centre + torch.randn(COUNT // 5, DIM, generator=torch.Generator().manual_seed(7))
    drawn = 10 ** (torch.rand(count, DIM, generator=generator, dtype=torch.float64) - 1)
    scale = drawn if scale is None else scale.expand(count, DIM)
    means = identities.repeat_interleave(5, 0)[:count]
    return Gaussian(means + scale * torch.randn(count, DIM, generator=generator, dtype=torch.float64), scale)


def shared(found, truth):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, truth, strict=True)])


def test_a_typical_query_is_scored_as_it_should_be():
    gallery = embeddings(200, 1)
    typical = Typical.fit(gallery, PRIOR)
    query = embeddings(9, 2, scale=torch.from_numpy(np.sqrt(typical.query)))
    asked = ShrunkQuery.from_query(query, PRIOR, 1)
    product = typical.keys(asked).astype(float) @ typical.rows(gallery, PRIOR).T.astype(float)
    wanted = log_likelihood_ratio(query, gallery, PRIOR) + PRIOR.log_density(query)[:, None]
    np.testing.assert_allclose(product, wanted + DIM / 2 * np.log(2 * np.pi), rtol=1e-4, atol=1e-3)


def test_rows_hold_the_shrunk_means():
    gallery = embeddings(50, 1)
    typical = Typical.fit(gallery, PRIOR)
    again = Typical.from_json(typical.to_json())
    np.testing.assert_array_equal(again.query, typical.query)
    np.testing.assert_array_equal(again.item, typical.item)
    means = typical.means(typical.rows(gallery, PRIOR))
    np.testing.assert_allclose(means, shrunk_rows(gallery, PRIOR)[:, :DIM], rtol=1e-5, atol=1e-6)


def test_they_find_what_shrunk_means_miss():
    gallery, query = embeddings(COUNT, 1), embeddings(40, 2)
    asked, typical = ShrunkQuery.from_query(query, PRIOR, 1), Typical.fit(gallery, PRIOR)
    best = log_likelihood_ratio(query, gallery, PRIOR).topk(10, 1).indices.tolist()
    _, plain = largest_products(asked.keys, shrunk_rows(gallery, PRIOR), 40)
    _, weighted = largest_products(typical.keys(asked), typical.rows(gallery, PRIOR), 40)
    assert shared(weighted.tolist(), best) > max(0.95, shared(plain.tolist(), best) + 0.1)


def test_a_variance_of_nothing_is_no_trouble():
    gallery = embeddings(20, 1, scale=torch.zeros(1, dtype=torch.float64))
    rows = Typical.fit(gallery, PRIOR).rows(gallery, PRIOR)
    assert np.isfinite(rows).all()


def test_a_gallery_uses_them_and_lives_with_changes(tmp_path):
    gallery, query = embeddings(COUNT, 1), embeddings(30, 2)
    with LocalIndex.create(tmp_path / "gallery") as index:
        index.set_prior(PRIOR)
        index.add([f"{n}" for n in range(COUNT)], gallery)
        index.compact()
        truth = index.search(query, 10, by="likelihood", approximate=False)
        assert shared(index.search(query, 10, by="likelihood").ids, truth.ids) > 0.99
        gone = sorted(set(truth.ids[:, 0]))
        index.remove(gone)
        index.add(["new"], query[:1])
        truth = index.search(query, 10, by="likelihood", approximate=False)
        found = index.search(query, 10, by="likelihood")
        assert not found.exact
        assert not set(found.ids.ravel()) & set(gone)
        assert found.ids[0, 0] == "new"
        assert shared(found.ids, truth.ids) > 0.99
    with LocalIndex.open(tmp_path / "gallery") as index:
        assert index.recovered is None
        np.testing.assert_array_equal(index.search(query, 10, by="likelihood").ids, found.ids)
