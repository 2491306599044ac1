"""The recipes of a table as data: a base, and for every row what differs from it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from howsure.errors import InputError
from howsure.recipe import SHIPPED as RECIPES
from howsure.recipe import Recipe, read_recipe

__all__ = ["Entry", "read_entries", "read_toml"]

SHIPPED = Path(__file__).parent / "recipes"
POSTERIORS = ("laplace", "dropout", "ensemble")
PARTS = ("extends", "base", "methods", "quick")


@dataclass(frozen=True)
class Entry:
    """How the model of a row is made: trained by a recipe, or a posterior fitted to the model of another row.

    `start` names the row whose model of the same seed comes first, `structure` the covariance of a Laplace posterior.
    """

    recipe: Recipe
    start: str | None = None
    posterior: str | None = None
    structure: str | None = None

    @property
    def is_ensemble(self) -> bool:
        """Whether the models of all seeds make one."""
        return self.posterior == "ensemble"


def read_entries(name: str, *, beside: Path, seed: int, quick: bool) -> dict[str, Entry]:
    """The recipes in `recipes/NAME.toml`, beside a table or shipped.

    `extends` names a recipe of `howsure train`, `[base]` changes it for all rows, `[methods.ROW]` for one of them, and
    `[quick]` for quick runs. A row may have `start`, `posterior` and `structure`, see `Entry`.
    """
    own = beside / "recipes" / f"{name}.toml"
    file = own if own.is_file() else SHIPPED / f"{name}.toml"
    if not file.is_file():
        known = ", ".join(sorted(found.stem for found in SHIPPED.glob("*.toml")))
        raise InputError("recipes", expected=f"{file}, or one of {known}", got="no such file")
    keys = read_toml("recipes", file)
    wrong = [key for key in keys if key not in PARTS]
    if wrong:
        raise InputError(f"recipes {file}", expected=" or ".join(PARTS), got=wrong[0])
    base = read_recipe(RECIPES / f"{keys.get('extends', 'default')}.toml").but(**keys.get("base", {}))
    quick_changes = keys.get("quick", {}) if quick else {}
    entries: dict[str, Entry] = {}
    for row, given in keys.get("methods", {}).items():
        changes = dict(given)
        start, posterior, structure = (changes.pop(key, None) for key in ("start", "posterior", "structure"))
        if posterior is not None and (posterior not in POSTERIORS or start is None or changes):
            raise InputError(
                f"{file}: {row}",
                expected=f"a posterior of {' or '.join(POSTERIORS)} and a row to start from, nothing else",
                got=str(given),
            )
        under = entries[start].recipe if posterior is not None and start in entries else base
        entries[row] = Entry(under.but(**changes | quick_changes | {"seed": seed}), start, posterior, structure)
    return entries


def read_toml(what: str, file: Path) -> dict[str, Any]:
    """The keys of a file; `what` it is, for messages."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{what} {file}", expected="TOML", got=str(error)) from error
