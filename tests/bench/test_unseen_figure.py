"""The picture of unseen classes that benchmarks/unseen.py draws."""

from pathlib import Path

import numpy as np
import pytest
import torch

from howsure import Draws, Point
from howsure.plots.outlines import map_plane, outlines


def test_figure_has_a_map_the_deviations_and_a_panel_for_each_unseen_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    from unseen import unseen_figure

    rng = np.random.default_rng(0)
    labels = np.array(["a", "b", "c", "d"])[np.arange(60) % 4]
    embedding = Draws(
        Point(torch.from_numpy(rng.normal(size=(4, 1, 2))[np.arange(60) % 4] + rng.normal(size=(60, 3, 2))))
    )
    figure = unseen_figure(embedding, labels.tolist(), unseen=("c", "d"))
    figure.canvas.draw()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    deviation = np.sqrt(embedding.uncertainty.numpy() / 2)
    assert titles[:2] == ["all classes; crosses: unseen in training", "uncertainty"]
    assert titles[2:] == [f"{name}: median deviation {np.median(deviation[labels == name]):.2g}" for name in "cd"]
    medians = [line.get_xdata()[0] for line in figure.axes[1].lines]
    assert medians == pytest.approx([np.median(deviation[np.isin(labels, list(names))]) for names in ("ab", "cd")])
    grey, mine = (figure.axes[2].collections[i].get_offsets() for i in (0, 2))
    centres = outlines(embedding, map_plane(embedding)).centres
    assert np.allclose(mine, centres[labels == "c"])
    assert len(grey) + len(mine) == len(embedding)
    assert len({axes.get_xlim() for axes in (figure.axes[0], *figure.axes[2:])}) == 1
