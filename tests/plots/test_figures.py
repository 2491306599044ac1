import re
import sys
import xml.etree.ElementTree as ET
from functools import cache

import numpy as np
import pytest
import torch

from howsure import Gaussian, Point
from howsure.errors import HowsureError
from howsure.metrics import reliability, risk_coverage
from howsure.plots import figures

RNG = np.random.default_rng(0)
P = RNG.random(200)
HIT = RNG.random(200) < P


@cache
def drawn() -> dict[str, str]:
    means = torch.randn(30, 5, generator=torch.manual_seed(0))
    embeddings = Gaussian(means, torch.full((30, 1), 0.2))
    labels = np.repeat(["<a>", "b", "c"], 10)
    return {
        "reliability": figures.reliability_figure(reliability(P, HIT)),
        "risk": figures.risk_coverage_figure({"a & b": risk_coverage(-P, ~HIT)}, max_error=0.05),
        "map": figures.map_figure(embeddings, labels, embeddings[:4]),
        "point map": figures.map_figure(Point(means), labels, Point(means[:4])),
    }


@pytest.mark.parametrize("name", ["reliability", "risk", "map", "point map"])
def test_a_figure_is_well_formed_svg_that_follows_the_page(name: str) -> None:
    svg = drawn()[name]
    root = ET.fromstring(svg)
    assert root.tag.endswith("svg")
    assert "viewBox" in root.attrib
    assert "width" not in root.attrib
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 5
    assert "currentColor" in svg
    assert "var(--series-1)" in svg
    assert "DejaVu" not in svg
    # Ink that is fixed would vanish on a dark page.
    assert not re.search(r"(fill|stroke): #(?!f)", svg)
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert "currentColor" in text.attrib.get("style", "")


def test_figures_keep_their_ids_apart() -> None:
    first, second = drawn()["reliability"], drawn()["risk"]
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (first, second)]
    assert ids[0]
    assert ids[1]
    assert not ids[0] & ids[1]
    for svg, own in zip((first, second), ids, strict=True):
        assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)) <= {
            pair for name in own for pair in ((name, ""), ("", name))
        }


def test_only_gaussians_have_circles() -> None:
    figures = drawn()
    assert "EllipseCollection" in figures["map"]
    assert "EllipseCollection" not in figures["point map"]


def test_the_plane_keeps_the_greatest_variance() -> None:
    means = torch.randn(500, 4, generator=torch.manual_seed(1), dtype=torch.float64) * torch.tensor([0.1, 5, 0.2, 3])
    flat = figures.Plane.fit(Point(means)).project(Point(means))
    reference = np.sort(np.linalg.eigvalsh(np.cov(means.numpy().T)))[::-1][:2]
    assert flat.var(0, ddof=1) == pytest.approx(reference)
    assert flat.mean(0) == pytest.approx([0, 0], abs=1e-9)


def test_one_dimension_still_has_a_plane() -> None:
    line = Point(torch.arange(5.0)[:, None])
    assert figures.Plane.fit(line).project(line).shape == (5, 2)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HowsureError, match=r"howsure\[plots\]"):
        figures.require_matplotlib()
