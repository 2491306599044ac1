"""Feedback on matches, one JSON line each, on disk before it is acknowledged."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from howsure.files import sync_folder, write_whole

if TYPE_CHECKING:
    from howsure.web.schemas import Pair

__all__ = ["FeedbackLog", "queries_in"]

FILE, QUERIES = "feedback.jsonl", "queries"


class FeedbackLog:
    """Lines are only added, by one thread. A line that a crash cut short was never acknowledged, and is cut off."""

    def __init__(self, folder: Path):
        self._folder, self._file = folder, folder / FILE
        if self._file.exists():
            content = self._file.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                os.truncate(self._file, whole)

    def add(self, pair: Pair, picture: bytes | None) -> Pair:
        """Keep it, and the pixels of the query if they are at hand; what was kept."""
        new, kept = not self._file.exists(), self.picture_of(pair.query)
        if picture is not None:
            self.keep(pair.query, picture)
        pair = pair.model_copy(update={"picture": f"{QUERIES}/{kept.name}" if kept.exists() else None})
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as file:
            file.write(pair.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_folder(self._folder)
            sync_folder(self._folder.absolute().parent)
        return pair

    def picture_of(self, query: str) -> Path:
        """Where the pixels of a query are, if they were kept."""
        return self._folder.absolute() / QUERIES / f"{query}.png"

    def keep(self, query: str, picture: bytes) -> None:
        """Keep the pixels of a query, as PNG."""
        file = self.picture_of(query)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, picture)
            sync_folder(self._folder)
            sync_folder(self._folder.absolute().parent)

    def pairs(self) -> list[Pair]:
        """All of it, oldest first."""
        from howsure.web.schemas import Pair

        lines = self._file.read_text(encoding="utf-8").splitlines() if self._file.exists() else []
        return [Pair(**json.loads(line)) for line in lines]

    def csv(self) -> str:
        """The same as a table: query, item, same, and labels where they are known."""
        file = io.StringIO()
        table = csv.writer(file)
        names = ("query", "picture", "item", "item_label", "same", "label", "time")
        table.writerow(names)
        table.writerows([_plain(getattr(pair, name)) for name in names] for pair in self.pairs())
        return file.getvalue()


def queries_in(folder: Path) -> set[str]:
    """The queries that people gave feedback on, while a server may be writing; needs no package of the web app."""
    try:
        content = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return set()
    return {json.loads(line)["query"] for line in content[: content.rfind(b"\n") + 1].splitlines()}


def _plain(value: str | bool | None) -> str:
    if isinstance(value, bool):
        return str(int(value))
    # A spreadsheet would run a cell that begins like a formula.
    return f"'{value}" if value and value[0] in "=+-@\t\r" else value or ""
