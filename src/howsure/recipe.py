"""A run is data: typed, frozen, from TOML with `extends`; an unknown key is an error with a suggestion."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from howsure.errors import InputError

__all__ = ["Recipe", "read_recipe", "recipe_for"]

SHIPPED = Path(__file__).parent / "recipes"

Count = Annotated[int, Field(ge=1)]


class Recipe(BaseModel):
    """Everything that decides how a model is trained, except the pictures.

    >>> Recipe(dim=3).model_dump()["epochs"]
    8
    >>> Recipe.from_json({"epoch": 3})
    Traceback (most recent call last):
    howsure.errors.InputError: recipe: epoch is not a key; did you mean epochs?
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    method: str = "point"  # a key of howsure.training.methods.METHODS
    backbone: str = "resnet"
    dim: Count = 64
    height: Count = 64
    width: Count = 64
    channels: Literal[1, 3] = 3
    pixel_mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    pixel_std: tuple[float, ...] = (0.25, 0.25, 0.25)
    loss: str = "contrastive"
    loss_options: dict[str, int | float | str] = {}
    miner: str = "all"
    epochs: Count = 8
    classes_per_batch: Annotated[int, Field(ge=2)] = 16
    pictures_per_class: Annotated[int, Field(ge=2)] = 8
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    schedule: Literal["constant", "one-cycle"] = "constant"
    augment: tuple[str, ...] = ()  # keys of howsure.data.AUGMENTATIONS
    validation_share: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    patience: Count = 5
    seed: Annotated[int, Field(ge=0)] = 0

    @classmethod
    def from_json(cls, keys: Mapping[str, Any]) -> Recipe:
        """Check plain keys and values; every mistake is named in words."""
        for key in keys:
            if key not in cls.model_fields:
                close = difflib.get_close_matches(key, cls.model_fields, 1)
                raise InputError(
                    f"recipe: {key} is not a key",
                    fix=f"did you mean {close[0]}?" if close else f"keys are {', '.join(cls.model_fields)}",
                )
        try:
            return cls.model_validate_json(json.dumps(dict(keys), default=str))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(f"recipe: {where}", expected=first["msg"].lower(), got=repr(first["input"])) from error

    def but(self, **changes: Any) -> Recipe:
        """The same recipe with some keys changed; None leaves a key as it is.

        Options belong to their loss, so another loss starts from its own defaults.
        """
        wanted = {key: value for key, value in changes.items() if value is not None}
        kept = self.model_dump()
        if wanted.get("loss", self.loss) != self.loss:
            kept |= {"loss_options": {}}
        return Recipe.from_json(kept | wanted)

    def differences(self, other: Recipe) -> list[str]:
        """The keys in which two recipes differ, as `key: mine -> theirs`."""
        mine, theirs = self.model_dump(), other.model_dump()
        return [f"{key}: {mine[key]} -> {theirs[key]}" for key in mine if mine[key] != theirs[key]]


def read_recipe(path: str | Path) -> Recipe:
    """A recipe file, or a shipped recipe by its name.

    In a file, `extends = "NAME"` starts from a shipped recipe or from a file beside this one.
    """
    named = SHIPPED / f"{path}.toml"
    return Recipe.from_json(_keys(Path(path) if Path(path).is_file() or not named.is_file() else named, seen=()))


def recipe_for(source: str) -> Recipe:
    """The shipped recipe for a data set's name, or the default one."""
    shipped = {file.stem: file for file in SHIPPED.glob("*.toml")}
    return read_recipe(shipped.get(source.partition(":")[0].partition("@")[0], SHIPPED / "default.toml"))


def _keys(path: Path, *, seen: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in seen:
        raise InputError(f"recipe {path} extends itself")
    try:
        keys = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError) as error:
        names = ", ".join(sorted(f.stem for f in SHIPPED.glob("*.toml")))
        raise InputError(
            "recipe", expected="a TOML file or the name of a shipped one", got=str(path), fix=f"shipped: {names}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {path}", expected="TOML", got=str(error)) from error
    base = keys.pop("extends", None)
    if base is None:
        return keys
    beside, shipped = path.parent / str(base), SHIPPED / f"{base}.toml"
    return _keys(beside if beside.is_file() else shipped, seen=(*seen, path.resolve())) | keys
