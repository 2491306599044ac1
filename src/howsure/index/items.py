"""What is known of an item besides its embedding, checked at the door."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from howsure.errors import GalleryError, InputError


@dataclass(frozen=True)
class Item:
    """The name under which an item is found, its label if it has one, and any JSON."""

    id: str
    label: str | None
    metadata: Mapping[str, Any]


def checked_items(
    ids: Sequence[str],
    count: int,
    *,
    labels: Sequence[str | None] | None,
    metadata: Sequence[Mapping[str, Any]] | None,
) -> list[Item]:
    """`count` items, or an error that says what is wrong with them."""
    labels = [None] * count if labels is None else labels
    metadata = [{}] * count if metadata is None else metadata
    for name, given in {"ids": ids, "labels": labels, "metadata": metadata}.items():
        if len(given) != count:
            raise InputError(name, expected=f"{count}, one for each item of the embedding", got=str(len(given)))
    for label in labels:
        if label is not None:
            _check_text(label, "label")
    rows = zip(checked_ids(ids), labels, metadata, strict=True)
    return [Item(identity, label, checked_json(notes, "metadata")) for identity, label, notes in rows]


def checked_ids(ids: Sequence[str]) -> list[str]:
    """Different strings."""
    if isinstance(ids, str):
        raise InputError("ids", expected="a sequence of strings", got="one string", fix="use [id]")
    for identity in ids:
        _check_text(identity, "id")
    twice = [identity for identity, times in Counter(ids).items() if times > 1]
    if twice:
        raise InputError("ids", expected="each id once", got=f"{short(twice[0])} more than once")
    return list(ids)


def checked_json(value: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The mapping as it will be read back."""
    try:
        return dict(json.loads(json.dumps(dict(value), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise InputError(
            what, expected="a mapping to JSON", got=str(error), fix="use strings, finite numbers, lists and dicts"
        ) from error


def require_present(ids: Sequence[str], found: Container[str]) -> None:
    """An error that names the ids that were not found."""
    if missing := [identity for identity in ids if identity not in found]:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        got = ", ".join(map(short, missing[:3])) + more
        raise GalleryError("ids", expected="items of the gallery", got=got, fix="index.ids() lists them all")


def short(text: str) -> str:
    """For an error message."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _check_text(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise InputError(what, expected="a string", got=type(value).__name__, fix="use str(...)")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(what, expected="valid Unicode", got=ascii(value), fix="rename it") from error
