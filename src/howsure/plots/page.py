"""Small parts of which a report is made. Each returns HTML; every text that goes in is escaped.

A report is one file: styles, figures and pictures are inside, nothing is fetched.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby

from PIL import Image

__all__ = ["Column", "Html", "document", "facts", "figure", "paragraph", "picture", "pictures", "section", "table"]


class Html(str):
    """Text that is already HTML. Everything else is escaped on its way in."""

    __slots__ = ()


def html(text: object) -> Html:
    """Escape whatever is not HTML yet.

    >>> html("<8>"), html(Html("<b>8</b>"))
    ('&lt;8&gt;', '<b>8</b>')
    """
    return text if isinstance(text, Html) else Html(escape(str(text)))


def joined(parts: Iterable[object]) -> Html:
    """The parts one after the other."""
    return Html("\n".join(html(part) for part in parts))


def paragraph(text: object, *, kind: str = "") -> Html:
    """A paragraph; `kind` is a class of the style sheet."""
    return Html(f"<p{_class(kind)}>{html(text)}</p>")


def section(title: str, *parts: object, level: int = 2) -> Html:
    """A heading and what belongs to it."""
    return Html(f"<section>\n<h{level}>{html(title)}</h{level}>\n{joined(parts)}\n</section>")


@dataclass(frozen=True)
class Column:
    """A column of a table, under the heading of its group, if it has one."""

    name: str
    group: str = ""


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[object]], *, caption: str, ours: Sequence[int] = ()
) -> Html:
    """A table that scrolls sideways where it does not fit; rows in `ours` stand out."""
    names = "".join(f'<th scope="col">{html(column.name)}</th>' for column in columns)
    head = f"{_group_row(columns)}<tr>{names}</tr>"
    body = []
    for number, (first, *rest) in enumerate(rows):
        cells = f'<th scope="row">{html(first)}</th>' + "".join(f"<td>{html(cell)}</td>" for cell in rest)
        body.append(f"<tr{_class('ours' if number in ours else '')}>{cells}</tr>")
    # A region that scrolls must be reachable by keyboard, and then it needs a name.
    return Html(
        f'<p class="soft">{html(caption)}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{html(caption)}"><table>'
        f"<thead>{head}</thead><tbody>{joined(map(Html, body))}</tbody></table></div>"
    )


def _group_row(columns: Sequence[Column]) -> str:
    if not any(column.group for column in columns):
        return ""
    cells = ""
    for name, group in groupby(column.group for column in columns):
        span = f'colspan="{len(list(group))}"'
        cells += f'<th {span} scope="colgroup">{html(name)}</th>' if name else f"<td {span}></td>"
    return f"<tr>{cells}</tr>"


def figure(svg: str, *, alt: str, caption: object = "") -> Html:
    """A drawing with alternative text."""
    shown = f"<figcaption>{html(caption)}</figcaption>" if caption else ""
    return Html(f'<figure><div role="img" aria-label="{html(alt)}">{svg}</div>{shown}</figure>')


def figures(*drawn: Html) -> Html:
    """Figures in a row where there is room."""
    return Html(f'<div class="figures">{joined(drawn)}</div>')


def picture(image: Image.Image, *, alt: str, caption: object = "") -> Html:
    """A picture inside the page, every pixel kept."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    content = base64.b64encode(buffer.getvalue()).decode()
    shown = f"<figcaption>{html(caption)}</figcaption>" if caption else ""
    return Html(f'<figure><img src="data:image/png;base64,{content}" alt="{html(alt)}">{shown}</figure>')


def pictures(shown: Iterable[Html]) -> Html:
    """A sheet of pictures."""
    return Html(f'<ul class="pictures">{"".join(f"<li>{one}</li>" for one in shown)}</ul>')


def match(query: Html, found: Iterable[Html]) -> Html:
    """A query beside its matches."""
    return Html(f'<div class="match">{query}{joined(found)}</div>')


def matches(shown: Iterable[Html]) -> Html:
    """Several queries beside their matches."""
    return Html(f'<div class="matches">{joined(shown)}</div>')


def facts(values: Mapping[str, object]) -> Html:
    """Names and values."""
    return Html(
        "<dl>" + "".join(f"<dt>{html(name)}</dt><dd>{html(value)}</dd>" for name, value in values.items()) + "</dl>"
    )


def document(title: str, *parts: object) -> str:
    """The whole file."""
    style = (files("howsure.plots") / "page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{html(title)}</h1>\n{joined(parts)}\n</main>\n</body>\n</html>\n"
    )


def _class(kind: str) -> str:
    return f' class="{escape(kind)}"' if kind else ""
