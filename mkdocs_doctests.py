"""Doctests and trees of docstrings as code blocks; Markdown would read them as quotations and paragraphs."""

import re
from typing import Any

import griffe

# A prompt, and what follows it up to an empty line or the end.
EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)
# A word alone on its line, and the branches below it.
TREE = re.compile(r"^\w+\n(?:[ │]*[├└].*\n?)+", re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences them in every docstring that is loaded."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring before it is rendered."""
        if obj.docstring:
            text = EXAMPLE.sub(lambda found: f"\n```pycon\n{found[0]}\n```\n", obj.docstring.value)
            obj.docstring.value = TREE.sub(lambda found: f"```text\n{found[0].rstrip()}\n```\n", text)
