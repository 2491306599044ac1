"""howsure demo: the whole way in under two minutes, on data that comes with a dependency."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli.console import Json


def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Where model, gallery and report go.")] = Path(
        "howsure-demo"
    ),
    as_json: Json = False,
) -> None:
    """Train, calibrate, index and search handwritten digits, two of which the model has never seen."""
