"""What every report must be."""

import re
from collections.abc import Collection
from html.parser import HTMLParser

import numpy as np

VOID = {"meta", "img", "br", "link"}


class Outline(HTMLParser):
    """Tags opened and closed, headings, and every attribute that could make a browser fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.headings: list[int] = []
        self.sources: list[str] = []
        self.without_alt = 0
        self.mismatched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        named = dict(attrs)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset")]
        self.without_alt += tag == "img" and not named.get("alt")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.mismatched.append(tag)


def outline(text: str) -> Outline:
    parser = Outline()
    parser.feed(text)
    parser.close()
    return parser


def check_page(text: str, *, links: Collection[str] = ()) -> Outline:
    """What every report must be: well formed, self-contained but for `links`, in order, described."""
    found = outline(text)
    assert found.open == []
    assert found.mismatched == []
    assert found.headings[0] == 1
    assert found.headings.count(1) == 1
    assert max(np.diff(found.headings), default=0) <= 1
    assert found.without_alt == 0
    assert all(source.startswith(("data:", "#")) or source in links for source in found.sources)
    assert set(re.findall(r"https?://[^\s\"'<>]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "@import" not in text
    assert "url(http" not in text
    return found
