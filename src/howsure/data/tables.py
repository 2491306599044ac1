"""A table of pictures: .csv or .tsv with a header, or .jsonl with one object a line.

Columns: `path` (relative to the table's folder, or absolute), `label` (optional; empty = unknown), `id` (optional;
the path as written when absent). Other columns are ignored.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from howsure.data.images import FileImages
from howsure.data.suggest import did_you_mean
from howsure.errors import DataError

Row = tuple[int, Mapping[str, Any]]  # line number, values by column


def load_table(path: Path) -> FileImages:
    """The pictures a table names. That the files exist is found out when they are read."""
    ids: dict[str, int] = {}
    labels: list[str | None] = []
    files: list[Path] = []
    for line, row in _rows(path):
        where = f"{path}, line {line}"
        file, label, name = (_text(row.get(column), column=column, where=where) for column in ("path", "label", "id"))
        if file is None:
            raise DataError(where, expected="a path", got="none")
        name = name or file
        if name in ids:
            raise DataError(where, expected="each id once", got=f"{name!r}, which is already on line {ids[name]}")
        ids[name] = line
        labels.append(label)
        files.append(path.parent / file)
    if not ids:
        raise DataError(str(path), expected="at least one picture", got="no rows")
    return FileImages(path.name, tuple(ids), tuple(labels), tuple(files))


def _rows(path: Path) -> Iterator[Row]:
    try:
        yield from TABLES[path.suffix.lower()](path)
    except UnicodeDecodeError as error:
        raise DataError(str(path), expected="UTF-8 text", got=f"byte {error.start}: {error.reason}") from error
    except OSError as error:
        raise DataError(str(path), expected="a table that can be read", got=str(error.strerror).lower()) from error


def _text(value: object, *, column: str, where: str) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(where, expected=f"{column} as text or a whole number", got=repr(value))
    return str(value)


def _separated(path: Path, delimiter: str) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            header = [column.strip().lower() for column in next(reader, [])]
            if "path" not in header:
                got = ", ".join(header) or "an empty file"
                fix = did_you_mean("path", header) or "name the columns in the first line, for example: path,label"
                raise DataError(f"{path}, line 1", expected="a column named path", got=got, fix=fix)
            for cells in filter(None, reader):
                if len(cells) != len(header):
                    where = f"{path}, line {reader.line_num}"
                    raise DataError(where, expected=f"{len(header)} values", got=f"{len(cells)}: {cells!r}"[:200])
                yield reader.line_num, dict(zip(header, cells, strict=True))
        except csv.Error as error:
            where = f"{path}, line {reader.line_num}"
            raise DataError(where, expected="well-formed quotes and fields", got=str(error)) from error


def _jsonl(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig") as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {line}", expected="a JSON object", got=str(error)) from error
            if not isinstance(row, dict) or "path" not in row:
                got = text.strip()[:80]
                raise DataError(f"{path}, line {line}", expected='a JSON object with the key "path"', got=got)
            yield line, row


TABLES: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".csv": partial(_separated, delimiter=","),
    ".tsv": partial(_separated, delimiter="\t"),
    ".jsonl": _jsonl,
}
