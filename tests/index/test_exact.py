"""The law of the index: a search is a full comparison in float64, whatever happened to the gallery before."""

import numpy as np
import pytest
import torch

from howsure import Draws, Gaussian, Matcher, Point, cat, rms_distance
from howsure.errors import GalleryError, InputError
from howsure.index import LocalIndex
from howsure.index.local import index as index_module


def check_search(index, model, query, k):
    """Compare with brute force; model is {id: embedding of one item} in the order of insertion."""
    matches = index.search(query, k)
    k = min(k, len(model))
    assert matches.ids.shape == matches.distances.shape == (len(query), k)
    assert matches.exact
    if not model:
        return matches
    gallery = cat(list(model.values())).to(dtype=torch.float64)
    full = rms_distance(query.to(dtype=torch.float64), gallery).numpy()
    np.testing.assert_allclose(matches.distances, np.sort(full, 1)[:, :k], rtol=1e-9, atol=1e-9)
    names = list(model)
    for row, found in enumerate(matches.ids):
        assert len(set(found)) == k
        positions = [names.index(name) for name in found]
        # Where brute force rounds differently, two items at one distance may swap; nothing else may.
        np.testing.assert_allclose(full[row, positions], matches.distances[row], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(matches.uncertainty[row], gallery[positions].uncertainty, rtol=1e-12)
    return matches


@pytest.mark.parametrize("seed", range(3))
def test_search_is_brute_force_after_any_history(make, path, seed, monkeypatch):
    monkeypatch.setattr(index_module, "LEAST", 40)  # so that snapshots happen by themselves too
    rng = np.random.default_rng(seed)
    model, index = {}, LocalIndex.create(path)
    for step in range(40):
        action = rng.choice(["add", "add", "remove", "compact", "reopen"])
        if action == "add":
            ids = [f"item {n}" for n in rng.choice(120, size=rng.integers(1, 25), replace=False)]
            batch = make(len(ids), seed=100 * seed + step)
            index.add(ids, batch, labels=[f"{name} at {step}" for name in ids])
            for position, name in enumerate(ids):
                model.pop(name, None)
                model[name] = batch[position]
        elif action == "remove" and model:
            gone = rng.choice(list(model), size=rng.integers(1, len(model) // 2 + 2), replace=False).tolist()
            assert index.remove(gone) == len(gone)
            for name in gone:
                del model[name]
        elif action == "compact":
            index.compact()
        elif action == "reopen":
            index.close()
            index = LocalIndex.open(path, write=True)
            assert index.recovered is None
        assert len(index) == len(model)
        assert index.ids() == list(model)
        if step % 4 == 0:
            check_search(index, model, make(1, seed=step), 5)
            check_search(index, model, make(9, seed=step + 1), 7)
    ids, whole = index.embedding()
    assert ids == list(model)
    for name, array in cat(list(model.values())).arrays().items():
        np.testing.assert_array_equal(whole.arrays()[name], array)
        np.testing.assert_array_equal(index.get(ids[:3]).arrays()[name], array[:3])
    index.close()


def test_larger_galleries_in_snapshot_and_tail(make, path):
    with LocalIndex.create(path) as index:
        old, new = make(3000, seed=1), make(800, seed=2)
        index.add([f"old {n}" for n in range(3000)], old)
        index.compact()
        index.add([f"new {n}" for n in range(800)], new)
        index.remove([f"old {n}" for n in range(0, 3000, 3)])
        model = {f"old {n}": old[n] for n in range(3000) if n % 3} | {f"new {n}": new[n] for n in range(800)}
        for queries in (1, 20):
            matches = check_search(index, model, make(queries, seed=3), 10)
            assert matches.candidates < 100


def test_nearest_comes_first_and_the_matcher_speaks(path):
    with LocalIndex.create(path) as index:
        index.add(["far", "near"], Point(torch.tensor([[5.0], [1.0]])))
        matcher = Matcher(scale=1.0, offset=2.0, base_rate=0.5)
        matches = index.search(Point(torch.tensor([[0.0]])), 2, matcher=matcher)
        assert matches.ids.tolist() == [["near", "far"]]
        assert matches.distances.tolist() == [[1.0, 5.0]]
        assert matches.distances.dtype == matches.probabilities.dtype == np.float64
        np.testing.assert_allclose(matches.probabilities, 1 / (1 + np.exp(matches.distances - 2)))
        assert index.search(Point(torch.tensor([[0.0]])), 2).probabilities is None


def test_ties_come_in_order_of_insertion_and_a_replaced_item_is_new(path):
    with LocalIndex.create(path) as index:
        index.add(list("dcba"), Point(torch.zeros(4, 3)))
        index.add(["c"], Point(torch.zeros(1, 3)))
        assert index.search(Point(torch.ones(2, 3)), 4).ids.tolist() == [list("dbac")] * 2


@pytest.mark.parametrize("queries", [1, 16])
def test_near_ties_below_float32_are_resolved_by_reading_more(path, queries):
    # All keys round to the same float32 values, so the scan cannot tell the items apart; float64 can.
    offsets = np.random.default_rng(0).permutation(500)
    location = torch.full((500, 4), 1000.0, dtype=torch.float64)
    location[:, 0] += torch.from_numpy(offsets) * 1e-9
    with LocalIndex.create(path) as index:
        index.add([f"{offset}" for offset in offsets], Point(location))
        index.compact()
        query = Point(torch.full((queries, 4), 1000.0, dtype=torch.float64))
        matches = index.search(query, 5)
        assert matches.ids.tolist() == [["0", "1", "2", "3", "4"]] * queries
        assert matches.candidates == 500


def test_more_duplicates_than_candidates(path):
    crowd = torch.cat([torch.zeros(300, 4), torch.randn(700, 4, generator=torch.Generator().manual_seed(0)) + 50])
    with LocalIndex.create(path) as index:
        index.add([f"{n}" for n in range(1000)], Point(crowd))
        matches = index.search(Point(torch.zeros(1, 4)), 3)
        assert matches.ids.tolist() == [["0", "1", "2"]]
        assert 300 < matches.candidates < 1000


def test_removed_items_near_the_query_never_surface(path):
    with LocalIndex.create(path) as index:
        index.add([f"{n}" for n in range(600)], Point(torch.arange(600.0)[:, None]))
        index.compact()
        index.remove([f"{n}" for n in range(500)])
        assert index.search(Point(torch.zeros(1, 1)), 2).ids.tolist() == [["500", "501"]]


def test_uncertain_items_are_farther(path):
    with LocalIndex.create(path) as index:
        index.add(["unsure", "sure"], Gaussian(torch.zeros(2, 2), torch.tensor([[2.0], [1.0]])))
        assert index.search(Point(torch.zeros(1, 2)), 2).ids.tolist() == [["sure", "unsure"]]


def test_one_side_may_have_a_single_draw(path, tmp_path):
    def normal(*shape):
        return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))

    points = Point(normal(50, 4))
    draws = Draws.stack([Point(normal(50 - s, 4)[:30]) for s in range(3)])
    with LocalIndex.create(path) as single, LocalIndex.create(tmp_path / "draws") as many:
        single.add([f"{n}" for n in range(50)], points)
        many.add([f"{n}" for n in range(30)], draws)
        check_search(single, {f"{n}": points[n] for n in range(50)}, draws[:5], 3)
        check_search(many, {f"{n}": draws[n] for n in range(30)}, points[:5], 3)
        with pytest.raises(InputError, match="draws of the query: expected 3"):
            many.search(Draws.stack([points[:2], points[:2]]), 1)


def test_small_requests(path, make):
    with LocalIndex.create(path) as index:
        assert index.search(make(2), 3).ids.shape == index.search(make(2), 3).uncertainty.shape == (2, 0)
        assert index.search(make(2), 3, matcher=Matcher(1.0, 0.0, 0.5)).probabilities.shape == (2, 0)
        index.add([], make(0))
        assert len(index) == 0
        index.add(["one"], make(1))
        assert index.search(make(0), 3).ids.shape == (0, 1)
        assert index.search(make(2), 3).ids.tolist() == [["one"], ["one"]]
        with pytest.raises(InputError, match="k: expected 1 or more, got 0"):
            index.search(make(1), 0)
        with pytest.raises(InputError, match="dimension of the query: expected 6, as in the gallery, got 4"):
            index.search(make(1, dim=4))
        index.remove(["one"])
        assert index.search(make(2), 3).ids.shape == (2, 0)


def test_bad_numbers_are_refused(path):
    with LocalIndex.create(path) as index:
        with pytest.raises(InputError, match="NaN or infinity"):
            index.add(["a"], Point(torch.tensor([[float("nan")]])))
        with pytest.raises(InputError, match="values up to 1e\\+15"):
            index.add(["a"], Point(torch.tensor([[1e16]])))
        with pytest.raises(InputError, match="float16, float32 or float64"):
            index.add(["a"], Point(torch.zeros(1, 1, dtype=torch.bfloat16)))
        index.add(["a"], Point(torch.tensor([[1e15]])))
        with pytest.raises(InputError, match="NaN or infinity"):
            index.search(Point(torch.tensor([[float("nan")]])))
        assert index.search(Point(torch.tensor([[-1e15]]))).distances.tolist() == [[pytest.approx(2e15)]]


def test_all_items_have_one_layout(path):
    gaussian = Gaussian(torch.zeros(1, 4), torch.ones(1, 1))
    with LocalIndex.create(path) as index:
        index.add(["a"], gaussian)
        others = [
            Point(torch.zeros(1, 4)),
            Gaussian(torch.zeros(1, 4), torch.ones(1, 4)),
            Gaussian(torch.zeros(1, 5), torch.ones(1, 1)),
            gaussian.to(dtype=torch.float64),
            Draws.stack([gaussian, gaussian]),
        ]
        for other in others:
            with pytest.raises(GalleryError, match=r"expected gaussian of float32 with location \(4,\), scale \(1,\)"):
                index.add(["b"], other)
        assert index.ids() == ["a"]
