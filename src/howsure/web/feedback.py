"""Feedback on matches, one JSON line each, on disk before it is acknowledged."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

from howsure.files import sync_folder, write_whole
from howsure.web.schemas import Pair

__all__ = ["FeedbackLog"]

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
        new = not self._file.exists()
        (self._folder / QUERIES).mkdir(parents=True, exist_ok=True)
        name = f"{QUERIES}/{pair.query}.png"
        known = (self._folder / name).exists()
        if picture is not None and not known:
            write_whole(self._folder / name, picture)
        pair = pair.model_copy(update={"picture": name if known or picture is not None else None})
        with self._file.open("ab") as file:
            file.write(pair.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_folder(self._folder)
            sync_folder(self._folder.absolute().parent)
        return pair

    def pairs(self) -> list[Pair]:
        """All of it, oldest first."""
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


def _plain(value: str | bool | None) -> str:
    if isinstance(value, bool):
        return str(int(value))
    # A spreadsheet would run a cell that begins like a formula.
    return f"'{value}" if value and value[0] in "=+-@\t\r" else value or ""
