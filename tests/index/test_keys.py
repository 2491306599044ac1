import faiss
import numpy as np
import pytest
import torch

from howsure import Gaussian, Point, expected_squared_distance
from howsure.index.local import scan
from howsure.index.ranking.keys import item_keys, key_width, query_keys, scan_ceiling


def test_key_distance_is_the_expected_squared_distance(make):
    gallery, query = make(20, seed=1), make(7, seed=2).to(dtype=torch.float64)
    draws = len(gallery.by_draw())
    keys = item_keys(gallery)
    assert keys.shape == (20, key_width(draws, gallery.dim))
    rows, constant = query_keys(query, draws)
    squared = ((rows[:, None].astype(float) - keys) ** 2).sum(-1) + constant[:, None]
    truth = expected_squared_distance(query, gallery.to(dtype=torch.float64)).numpy()
    np.testing.assert_allclose(squared, truth, rtol=1e-5)


@pytest.mark.parametrize("queries", [1, 8], ids=["direct", "product"])
@pytest.mark.parametrize("offset", [0.0, 30.0, 1e6], ids=["centred", "far", "very far"])
def test_no_scan_reports_more_than_the_ceiling(queries, offset):
    """With an offset the expansion of the square loses most digits: the bound must follow."""
    rng = np.random.default_rng(0)
    scale = torch.from_numpy(rng.random((4000, 1)))
    gallery = Gaussian(torch.from_numpy(offset + rng.normal(size=(4000, 24))), scale)
    query = Gaussian(torch.from_numpy(offset + rng.normal(size=(queries, 24))), scale[:queries])
    rows, constant = query_keys(query, 1)
    scanned, positions = scan.nearest(rows, item_keys(gallery), 4000)
    for q in range(queries):
        true = expected_squared_distance(query[[q] * 4000], gallery[positions[q]], paired=True).numpy()
        ceiling = scan_ceiling(np.repeat(rows[[q]], 4000, 0), true, np.repeat(constant[[q]], 4000))
        assert (scanned[q] <= ceiling).all()
        # Nor is the bound idle talk: it is within a thousand roundings of the size of the keys.
        assert (ceiling - (true - constant[q])).max() < 1000 * 2**-24 * (2 * np.linalg.norm(rows[q]) + true.max()) ** 2


def test_scan_leaves_the_settings_of_faiss_alone():
    rows = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
    before = faiss.cvar.distance_compute_blas_threshold, faiss.omp_get_max_threads()
    for queries in (1, 20):
        squared, positions = scan.nearest(rows[:queries], rows, 3)
        assert positions[:, 0].tolist() == list(range(queries))
        assert (np.diff(squared, axis=1) >= 0).all()
        assert (faiss.cvar.distance_compute_blas_threshold, faiss.omp_get_max_threads()) == before


def test_uncertain_items_have_longer_keys():
    keys = item_keys(Gaussian(torch.zeros(2, 3), torch.tensor([[0.5], [2.0]])))
    assert np.linalg.norm(keys[0]) < np.linalg.norm(keys[1])
    assert np.linalg.norm(item_keys(Point(torch.zeros(1, 3)))) == 0
