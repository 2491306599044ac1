import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from bench.pages import check_page
from howsure.plots import page
from howsure.plots.page import Column, Html

EVIL = "<script>alert('8')</script>\" onload=\"x"


def everything(text: str) -> str:
    tiny = Image.new("L", (2, 2), 9)
    return page.document(
        text,
        page.paragraph(text, kind="lead"),
        page.section(
            text,
            page.table([Column(text), Column(text, text)], [[text, text]], caption=text, ours=[0]),
            page.facts({text: text}),
            page.section(text, page.pictures([page.picture(tiny, alt=text, caption=text)]), level=3),
            page.matches([page.match(page.picture(tiny, alt=text), [page.picture(tiny, alt=text)])]),
            page.figures(page.figure("<svg></svg>", alt=text, caption=text)),
        ),
    )


def test_every_text_is_escaped() -> None:
    found = check_page(everything(EVIL))
    assert "script" not in found.tags
    assert found.tags == check_page(everything("plain")).tags


def test_html_is_not_escaped_twice() -> None:
    assert page.paragraph(Html("<b>8</b>")) == "<p><b>8</b></p>"
    assert page.paragraph("1 < 2 & 3") == "<p>1 &lt; 2 &amp; 3</p>"


def test_a_picture_keeps_every_pixel() -> None:
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    shown = page.picture(Image.fromarray(pixels), alt="a digit")
    content = re.search(r"base64,([^\"]+)", shown)
    assert content
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(content[1])))), pixels)


def test_groups_span_their_columns() -> None:
    made = page.table(
        [Column(""), Column("a", "one"), Column("b", "one"), Column("c", "two")], [["x", 1, 2, 3]], caption="c"
    )
    assert re.findall(r'colspan="(\d)" scope="colgroup">(\w+)', made) == [("2", "one"), ("1", "two")]
    assert "colgroup" not in page.table([Column("a")], [["x"]], caption="c")


@pytest.mark.parametrize("part", ["prefers-color-scheme: dark", "@media print", "pixelated", "max-width: 30rem"])
def test_the_style_is_inside(part: str) -> None:
    assert part in page.document("title")
