"""What a mistyped word was probably meant to be."""

from collections.abc import Collection
from difflib import get_close_matches


def did_you_mean(word: str, known: Collection[str]) -> str:
    """A question that names the nearest known words, or nothing when none is near.

    >>> did_you_mean("Fashion-mist", ["mnist", "fashion-mnist"])
    'did you mean fashion-mnist?'
    """
    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower, n=3, cutoff=0.7)
    return f"did you mean {' or '.join(by_lower[name] for name in near)}?" if near else ""


def listed(names: Collection[str], limit: int = 12) -> str:
    """The names in a row, cut where a message would get too long.

    >>> listed("abc"), listed("abc", 2)
    ('a, b, c', 'a, b, ... (3 in all)')
    """
    shown = ", ".join(list(names)[:limit])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > limit else shown
