import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from PIL import Image

from howsure import Gaussian
from howsure.data import ArrayImages
from howsure.errors import DataError, InputError
from howsure.plots.map_files import map_file, write_map
from howsure.plots.maps import View, embedding_map

LABELS = [str(i % 3) for i in range(30)]


def figure():
    means = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    images = ArrayImages("noise", tuple(map(str, range(30))), tuple(LABELS), np.zeros((30, 8, 8), np.uint8))
    return embedding_map([View("<clean>", Gaussian(means, torch.full((30, 1), 0.2)), images)], LABELS)


def test_svg_is_whole_named_and_follows_light_and_dark(tmp_path):
    file = tmp_path / "deep" / "map.svg"
    write_map(file, figure(), alt="embeddings & scores")
    assert [path.name for path in file.parent.iterdir()] == ["map.svg"]
    text = file.read_text()
    root = ET.fromstring(text)
    tag = "{http://www.w3.org/2000/svg}"
    assert (root.attrib["role"], root.find(f"{tag}title").text) == ("img", "embeddings & scores")
    assert "prefers-color-scheme: dark" in text
    assert len(list(root.iter(f"{tag}image"))) == 6
    for words in root.iter(f"{tag}text"):
        assert "currentColor" in words.attrib["style"]
    # What is neither ink nor nothing must hold on white and on black.
    for colour in set(re.findall(r"(?:fill|stroke): #([0-9a-f]{6})", text)):
        red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4))
        assert 0.25 < 0.3 * red + 0.59 * green + 0.11 * blue < 0.75


def test_png_can_be_opened_and_has_its_own_ground(tmp_path):
    file = tmp_path / "map.PNG"
    write_map(file, figure(), alt="a map")
    with Image.open(file) as image:
        assert image.convert("RGBA").getpixel((0, 0)) == (255, 255, 255, 255)
        assert image.width > 600
        assert image.text["Description"] == "a map"


def test_a_name_that_cannot_be_is_refused_before_the_work(tmp_path):
    (tmp_path / "taken").write_text("")
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InputError, match=r"ends in \.svg or \.png"):
        map_file(tmp_path / "map.pdf")
    with pytest.raises(DataError, match="a folder for the map, got a file"):
        map_file(tmp_path / "taken" / "map.svg")
    with pytest.raises(DataError, match="a file for the map, got a folder"):
        map_file(tmp_path / "folder.svg")
