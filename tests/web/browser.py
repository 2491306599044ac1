"""Requests to an app in this process, and a small gallery for it to serve."""

import asyncio
import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from PIL import Image

from decide.policies import policy
from howsure import data
from howsure.data import InputSpec
from howsure.decide import Reference, UnknownRule
from howsure.decide.evidence import FEATURES
from howsure.embedder import Embedder
from howsure.index import LocalIndex
from howsure.match import Matcher
from howsure.numerics.link import Link
from howsure.numerics.logistic import Logistic
from howsure.posteriors import laplace
from howsure.web.app import create_app
from howsure.web.settings import Settings

HERE = "http://127.0.0.1:8765"
PRIOR = 1e3  # a few hundredths of the uncertainty are then about the model


class Browser:
    """Asks an app, one request after the other; closed, the app lets go of its gallery."""

    def __init__(self, gallery: Path, settings: Settings | None = None, headers: Mapping[str, str] | None = None):
        self.app = create_app(gallery, settings)
        self.service = self.app.state.service
        self.headers = dict(headers or {})

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        options["headers"] = self.headers | dict(options.get("headers") or {})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=HERE) as client:
            return await client.request(method, path, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self.ask("GET", path, **options))

    def post(self, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self.ask("POST", path, **options))

    def delete(self, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self.ask("DELETE", path, **options))

    def search(self, *contents: bytes, **fields: Any) -> httpx.Response:
        return self.post("/api/v1/search", files=uploads(*contents), data=fields)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.service.close()


def uploads(*contents: bytes, name: str = "pictures") -> list[tuple[str, tuple[str, bytes]]]:
    return [(name, (f"{number}.png", content)) for number, content in enumerate(contents)]


def as_png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def make_gallery(folder: Path, *, count: int = 60) -> Path:
    """Digits as files under a network that nobody has trained, with a posterior.

    Quick to make; every embedding has its own variance, some of it about the picture and some about the model.
    """
    torch.manual_seed(0)
    digits = data.load("digits:test").subset(range(count))
    plain = Embedder("lam-fashion", "gaussian", InputSpec(8, 8, 1, (0.0,), (1.0,)), dim=4)
    embedder = laplace.fit_posterior(plain, digits, prior=PRIOR)
    embedder.save(folder / "model")
    about = {"model": str(folder / "model"), "fingerprint": embedder.fingerprint}
    names = [f"{label}/{number:03d}.png" for number, label in enumerate(digits.labels)]
    for number, name in enumerate(names):
        file = folder / "photos" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        digits.image(number).save(file)
    with LocalIndex.create(folder / "gallery", about=about) as index:
        embedding = embedder.encode(digits)
        notes = [{"path": str(folder / "photos" / name)} for name in names]
        index.add(names, embedding, labels=digits.labels, metadata=notes)
        near = index.search(embedder.encode(np.zeros((1, 8, 8), np.uint8)), 5).distances[0]
        black = np.exp(np.log(near).mean())
        nearest = index.search(embedding, 1).distances[:, 0]
    # Half of the items are near enough to be a match when they are asked about; a black square is just too remote.
    made, score = policy(), 40.0 * float(np.median(nearest)) + 1.0
    by_distance = Logistic(tuple(40.0 * (name == "distance") for name in FEATURES), score)
    made = replace(
        made,
        matcher=Matcher(scale=40.0, offset=score, base_rate=0.1),
        chances=replace(made.chances, right=Link(by_distance)),
        unknown=UnknownRule(float(black) - 1e-6, None, 3, 320),
        limits=replace(made.limits, uncertainty=float(np.median(embedding.uncertainty)), references=1),
        reference=Reference(tuple(embedding.uncertainty.tolist()), ()),
        certificate=replace(made.certificate, gallery=count, identities=len(digits.classes)),
        model=embedder.fingerprint,
    )
    made.save(folder / "model")
    return folder / "gallery"
