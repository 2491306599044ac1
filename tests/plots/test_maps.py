"""Maps of embeddings: what is drawn, how often, where, and on which axes."""

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox
from matplotlib.patches import Polygon

from howsure import Gaussian, GaussianMixture, Point, VonMisesFisher
from howsure.data import ArrayImages
from howsure.errors import InputError
from howsure.plots.maps import CLASSES, ITEMS, View, embedding_map, map_rows

N = 40
LABELS = [f"class {i % 4}" for i in range(N)]
MEANS = torch.randn(N, 2, generator=torch.Generator().manual_seed(0))


def pictures(labels: list[str]) -> ArrayImages:
    grey = np.arange(len(labels), dtype=np.uint8)
    array = np.broadcast_to(grey[:, None, None], (len(labels), 8, 8)).copy()
    return ArrayImages("greys", tuple(map(str, grey)), tuple(labels), array)


def embedding(wide: float = 1.0) -> Gaussian:
    return Gaussian(MEANS, wide * torch.linspace(0.1, 0.5, N)[:, None])


def pair(**images: ArrayImages) -> Figure:
    return embedding_map([View("clean", embedding(), **images), View("worse", embedding(3), **images)], LABELS)


def outlined(figure: Figure, panel: int) -> np.ndarray:
    (drawn,) = (artist for artist in figure.axes[panel].collections if isinstance(artist, PolyCollection))
    return np.array([path.vertices for path in drawn.get_paths()])


def test_every_embedding_is_outlined_at_one_standard_deviation_in_data_coordinates():
    figure = pair()
    for panel, wide in ((0, 1.0), (1, 3.0)):
        curves = outlined(figure, panel)
        assert len(curves) == N
        widest_first = wide * np.linspace(0.1, 0.5, N)[::-1]  # the certain ones are drawn on top
        np.testing.assert_allclose(np.ptp(curves, axis=1) / 2, np.stack([widest_first] * 2, 1), rtol=1e-5)


def test_a_standard_deviation_is_as_long_upwards_as_across():
    figure = pair(images=pictures(LABELS))
    for axes in figure.axes:
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        box = axes.get_window_extent()
        assert box.width / (right - left) == pytest.approx(box.height / (high - low))


def test_panels_share_their_limits_and_hold_every_mean():
    figure = pair()
    first, second = figure.axes
    assert first.get_xlim() == second.get_xlim()
    assert first.get_ylim() == second.get_ylim()
    (left, right), (low, high) = first.get_xlim(), first.get_ylim()
    x, y = MEANS.numpy().T
    assert ((x > left) & (x < right) & (y > low) & (y < high)).all()


def test_one_very_wide_embedding_does_not_set_the_axes():
    scale = torch.full((N, 1), 0.1)
    scale[0] = 100
    left, right = embedding_map([View("", Gaussian(MEANS, scale))]).axes[0].get_xlim()
    assert right - left < 2 * np.ptp(MEANS.numpy(), axis=0).max()


def test_wide_embeddings_are_fainter():
    (drawn,) = (artist for artist in pair().axes[1].collections if isinstance(artist, PolyCollection))
    opacity = drawn.get_facecolor()[:, 3]
    assert (np.diff(opacity) >= 0).all()  # widest first
    assert opacity[0] < opacity[-1]


def test_labels_have_their_colour_and_stand_in_the_middle_of_their_class():
    figure = pair()
    for axes in figure.axes:  # in both where the first has it
        named = {text.get_text(): text.xy for text in axes.texts}
        assert set(named) == set(LABELS)
        for name in named:
            rows = [i for i, label in enumerate(LABELS) if label == name]
            np.testing.assert_allclose(named[name], np.median(MEANS[rows].numpy(), axis=0), rtol=1e-6)
    (drawn,) = (artist for artist in figure.axes[0].collections if isinstance(artist, PolyCollection))
    colours = drawn.get_facecolor()[::-1, :3]  # back to the order of the items
    assert len(np.unique(colours, axis=0)) == 4
    assert all((colours[i] == colours[i + 4]).all() for i in range(N - 4))


def test_without_labels_colour_shows_the_uncertainty():
    (drawn,) = (a for a in embedding_map([View("", embedding())]).axes[0].collections if isinstance(a, PolyCollection))
    red, blue = drawn.get_facecolor()[[0, -1]]  # the widest and the most certain
    assert red[0] > red[2]
    assert blue[2] > blue[0]


def shown(figure: Figure, panel: int) -> list[int]:
    """The grey of every picture beside a panel, from left to right, those above first."""
    boxes = [artist for artist in figure.axes[panel].artists if isinstance(artist, AnnotationBbox)]
    boxes.sort(key=lambda box: (-box.xy[1], box.xy[0]))
    return [int(box.offsetbox.get_data()[0, 0, 0]) for box in boxes]


def test_pictures_are_the_extremes_of_each_class_the_same_in_both_panels():
    figure = pair(images=pictures(LABELS))
    for panel in (0, 1):
        found = shown(figure, panel)
        assert sorted(found[:4]) == [0, 1, 2, 3]
        assert sorted(found[4:]) == [36, 37, 38, 39]
        for row in (found[:4], found[4:]):
            assert (np.diff(MEANS[row, 0]) > 0).all()  # so that lines cross little
        assert sum(isinstance(patch, Polygon) for patch in figure.axes[panel].patches) == 8


def test_crosses_mark_where_the_pictures_lay_before():
    moved = Gaussian(MEANS + 1, embedding().scale)
    images = pictures(LABELS)
    figure = embedding_map([View("clean", embedding(), images), View("moved", moved, images)], LABELS)
    assert not figure.axes[0].lines
    crosses = np.array([line.get_xydata()[0] for line in figure.axes[1].lines])
    expected = MEANS[shown(figure, 1)].numpy()
    np.testing.assert_allclose(np.sort(crosses, axis=0), np.sort(expected, axis=0))


def test_families_of_other_shapes_are_drawn_too():
    mixture = GaussianMixture(torch.zeros(N, 2), torch.randn(N, 2, 3), torch.rand(N, 2, 3) + 0.1)
    assert len(outlined(embedding_map([View("", mixture)], LABELS), 0)) == 2 * N
    circle = VonMisesFisher(torch.nn.functional.normalize(MEANS, dim=-1), torch.full((N,), 5.0))
    (arcs,) = (
        a for a in embedding_map([View("", circle)], LABELS).axes[0].collections if isinstance(a, LineCollection)
    )
    assert len(arcs.get_paths()) == N
    texts = [text.get_text() for text in embedding_map([View("", Point(MEANS))], LABELS).texts]
    assert "standard deviation: none, these are points" in texts


def test_odd_labels_and_large_pictures_fit():
    labels = ["$", r"$\nonsense$", "x" * 500, "a\nb"] * 2
    images = ArrayImages("large", tuple("abcdefgh"), tuple(labels), np.zeros((8, 900, 1600), np.uint8))
    figure = embedding_map([View("", embedding()[:8], images)], labels)
    figure.draw_without_rendering()
    named = {text.get_text() for text in figure.axes[0].texts}
    assert {"$", r"$\nonsense$", "…" + "x" * 11, "a b"} <= named
    for box in (artist for artist in figure.axes[0].artists if isinstance(artist, AnnotationBbox)):
        assert max(box.offsetbox.get_data().shape) <= 300


def test_one_item_and_one_dimension_are_a_map():
    alone = embedding_map([View("", embedding()[:1], pictures(["a"]))], ["a"])
    alone.draw_without_rendering()
    assert shown(alone, 0) == [0]
    line = Gaussian(torch.arange(3.0)[:, None], torch.ones(3, 1))
    np.testing.assert_allclose(np.ptp(outlined(embedding_map([View("", line)]), 0), axis=1), [[2, 0]] * 3, atol=1e-6)


@pytest.mark.parametrize(
    ("views", "labels", "word"),
    [
        ([], None, "got no view"),
        ([View("a", embedding()), View("b", embedding()[:5])], None, "got 5 and 40"),
        ([View("a", embedding(), pictures(LABELS[:3]))], None, "got 3 and 40"),
        ([View("a", embedding()[:0])], None, "got 0"),
        ([View("a", embedding())], LABELS[:-1], "got 39"),
    ],
)
def test_views_of_different_items_are_refused(views, labels, word):
    with pytest.raises(InputError, match=word):
        embedding_map(views, labels)


def test_a_large_set_is_thinned_by_lot():
    labels = [str(i % 70) for i in range(7000)]
    rows = map_rows(labels, seed=3)
    assert (len(rows), len({labels[row] for row in rows})) == (ITEMS, CLASSES)
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, map_rows(labels, seed=3))
    assert set(rows) != set(map_rows(labels, seed=4))
