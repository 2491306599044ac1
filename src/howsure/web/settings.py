"""What a server is allowed to do, and for whom."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from howsure.errors import InputError

__all__ = ["Settings", "folder_of"]

LEAST_TOKEN = 16  # characters


@dataclass(frozen=True)
class Settings:
    """Limits of a server. It listens on this machine alone, or asks everybody for a token.

    >>> Settings(host="0.0.0.0")
    Traceback (most recent call last):
    howsure.errors.InputError: host 0.0.0.0: expected a token, because others can reach it, got none; use --token
    """

    host: str = "127.0.0.1"
    token: str | None = None
    model: Path | None = None  # where the gallery does not say, or it has moved
    folder: Path | None = None  # for feedback and added pictures; by default `folder_of` the gallery
    audit: float = 0.0  # probability with which a picture that is searched is drawn, to be labelled
    upload: int = 32 * 2**20  # bytes of a request
    pixels: int = 40_000_000  # of a picture
    pictures: int = 32  # of a request
    bulk: int = 1000  # pictures of a request that adds them one by one
    uploads: int = 16  # requests with much in them that come in at once; more are refused
    connections: int = 128  # at once; more are refused
    waiting: int = 32  # requests that wait for a worker; more are refused
    patience: float = 30.0  # seconds in which a request must have come in, and a part of a response gone out
    header: float = 10.0  # seconds in which the head of a request must have come in

    def __post_init__(self) -> None:
        if not self.loopback and self.token is None:
            raise InputError(
                f"host {self.host}",
                expected="a token, because others can reach it",
                got="none",
                fix="use --token",
            )
        if self.token is not None and (len(self.token) < LEAST_TOKEN or not self.token.isascii()):
            raise InputError("token", expected=f"at least {LEAST_TOKEN} ASCII characters", got=str(len(self.token)))

        if not 0 <= self.audit <= 1:
            raise InputError("audit", expected="a probability from 0 to 1", got=str(self.audit))

    @property
    def loopback(self) -> bool:
        """Whether this machine alone can reach the server."""
        return is_loopback(self.host)


def folder_of(gallery: str) -> Path:
    """Where feedback and added pictures lie: next to a gallery on disk; for one on a server, here."""
    path = Path(gallery.partition("?")[0].rpartition("/")[2] if "://" in gallery else gallery).resolve()
    return path.with_name(f"{path.name}.window")


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
