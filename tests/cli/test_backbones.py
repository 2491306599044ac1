"""howsure backbones: every pretrained network, whether it is here, and what brings it."""

from dataclasses import replace

import pytest

from howsure.backbones import PRETRAINED


def test_every_pretrained_network_is_listed(run):
    rows = run("backbones", "--json").json["backbones"]
    assert [row["name"] for row in rows] == list(PRETRAINED)
    for row in rows:
        entry = PRETRAINED[row["name"]]
        assert (row["pixels"], row["features"], row["installed"]) == (entry.side, entry.features, entry.installed)
        assert (row["licence"], row["sha256"]) == (entry.licence, entry.sha256)
        assert row["recall_at_1"].keys() <= run("backbones", "--json").json["references"].keys()
        assert row["pictures_per_second"] is None


def test_what_is_not_here_is_shown_with_what_installs_it(run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(PRETRAINED, "efficientnet-lite1", replace(PRETRAINED["efficientnet-lite1"], package="nobody"))
    line = next(line for line in run("backbones").out.splitlines() if line.startswith("efficientnet-lite1"))
    assert line.endswith("pip install nobody==0.1.0")
    assert "240 x 240 pixels" in line
    assert "Apache-2.0" in line


def test_speed_is_measured_where_it_is_asked_for(run):
    assert all(row["pictures_per_second"] > 0 for row in run("backbones", "--time", "--json").json["backbones"])
    assert "pictures a second here" in run("backbones", "--time").out
