"""Backbone and head together: pictures in, embeddings out; saved as a directory without pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load as parse_weights
from safetensors.torch import save as weight_bytes
from torch import Tensor, nn

from howsure import __version__, data
from howsure.backbones import BACKBONES, build_backbone, evaluating, feature_count
from howsure.data import ImageSet, InputSpec, Skipped
from howsure.data.content import UNKNOWN, SeenContent, content_hashes, read_seen
from howsure.data.measures import measure
from howsure.embeddings import Embedding, cat
from howsure.errors import InputError, ModelError
from howsure.files import CHECKSUM, sealed, unsealed, write_whole
from howsure.heads import HEADS, build_head
from howsure.heads.wrapped import wrapped
from howsure.match import Matcher
from howsure.posteriors import build_posterior, posterior_of, single_head

FORMAT = 2
UNSEALED = 1  # the format of cards from before they had a checksum
EXTERNAL = "foreign"  # on a card: a module given by the user, not by name


@dataclass(frozen=True)
class Encoded:
    """The embedding of a set of pictures, those pictures, and the ones that could not be read."""

    embedding: Embedding
    images: ImageSet
    skipped: tuple[Skipped, ...]
    content: np.ndarray  # (N,) int64, see `content_hashes`
    measures: np.ndarray | None = None  # (N, M) of their quality, where it was asked for


class _Batch(NamedTuple):
    """Normalised float pixels (B, C, H, W), and where they come from pictures, what these are."""

    pixels: Tensor
    stored: Tensor | None = None  # the same as uint8
    measures: np.ndarray | None = None  # (B, M) of their quality, where it was asked for


class Embedder(nn.Module):
    """Pictures to an `Embedding`: `head(backbone(pixels))`.

    Give `backbone` and `head` by name, or any `nn.Module`: a backbone maps (N, C, H, W) to (N, M) features, a head maps
    features to an `Embedding`. `spec` says how a picture becomes a tensor; `card` is what travels with the weights.

    >>> embedder = Embedder("lam-fashion", "point", InputSpec(28, 28, 1, (0.0,), (1.0,)), dim=3)
    >>> embedder.encode(np.zeros((2, 28, 28), np.uint8)).mean.shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        head: str | nn.Module,
        spec: InputSpec,
        *,
        dim: int | None = None,
        card: Mapping[str, Any] | None = None,
    ):
        super().__init__()
        shape = (spec.channels, spec.height, spec.width)
        self.backbone = build_backbone(backbone, shape) if isinstance(backbone, str) else backbone
        if isinstance(head, str):
            if dim is None:
                raise InputError("dim", expected="the number of dimensions for a head given by name", got="nothing")
            head = build_head(head, feature_count(self.backbone, shape), dim)
        self.head = head
        self.spec = spec
        named: dict[type, str] = {kind: name for name, kind in HEADS.items()}
        inner, posterior = single_head(head), posterior_of(head)
        self.card: dict[str, Any] = dict(card or {}) | {
            "backbone": backbone if isinstance(backbone, str) else EXTERNAL,
            "head": named.get(type(inner), EXTERNAL),
            "dim": inner.dim if type(inner) in named else dim,
            "input": spec.to_json(),
        }
        self.card.pop("posterior", None)  # of another head
        if posterior:
            self.card["posterior"] = {"kind": posterior.kind} | posterior.describe()
        self._seen = UNKNOWN
        self._unread: partial[SeenContent] | None = None  # of a model that was loaded, until somebody asks

    @classmethod
    def wrap(cls, module: nn.Module, spec: InputSpec, last_layer: str | None = None) -> Embedder:
        """A network of your own, which maps (N, C, H, W) to features or embeddings (N, D), as an embedder.

        What it returns is the embedding: nothing is trained and nothing moves. Its last linear layer, found by itself
        or named by `last_layer`, becomes the layer that a posterior can be fitted to; a network whose output is not
        that layer's is followed by one that leaves it as it is. The module itself is not changed, and must be given
        again to `load`, as `backbone=` and `head=` of another `wrap`.

        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
        >>> embedder = Embedder.wrap(net, InputSpec(8, 8, 1, (0.0,), (1.0,)))
        >>> embedder.encode(np.zeros((2, 8, 8), np.uint8)).mean.shape
        torch.Size([2, 3])
        """
        backbone, head = wrapped(module, (spec.channels, spec.height, spec.width), last_layer)
        return cls(backbone, head, spec, dim=head.dim).eval()

    def forward(self, pixels: Tensor) -> Embedding:
        """(N, C, H, W) normalised pixels to N items."""
        if pixels.ndim != 4 or not pixels.is_floating_point():
            raise InputError(
                "pixels",
                expected="normalised floats, (N, C, H, W)",
                got=f"{pixels.dtype}, {tuple(pixels.shape)}",
                fix="use InputSpec.normalise",
            )
        return self._from_features(self.backbone(pixels))

    def _from_features(self, features: Tensor) -> Embedding:
        embedding = self.head(features)
        if not isinstance(embedding, Embedding):
            raise InputError("head", expected="an Embedding", got=type(embedding).__name__, fix="see howsure.heads")
        return embedding

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    @property
    def matcher(self) -> Matcher | None:
        """What training or a posterior fitted to held-out pairs, before any calibration; None if nothing was."""
        fitted = self.card.get("matcher")
        return Matcher.from_json(fitted) if fitted else None

    @property
    def seen(self) -> SeenContent:
        """The pictures that it was trained on or fitted to, by their content."""
        if self._unread:
            self.seen = self._unread()
        return self._seen

    @seen.setter
    def seen(self, content: SeenContent) -> None:
        self._seen, self._unread = content, None

    @property
    def fingerprint(self) -> str:
        """A short hash of exactly these weights, and of the settings of a posterior."""
        return self._hash(self._weights())

    def with_head(
        self, head: nn.Module, card: Mapping[str, Any] | None = None, *, backbone: nn.Module | None = None
    ) -> Embedder:
        """The same backbone, shared, under another head; `card` is added to what travels with the weights.

        A `backbone`, where the head needs another, is one built around this one.
        """
        parts = self.backbone if backbone is None else backbone, head
        other = Embedder(*parts, self.spec, dim=self.card["dim"], card=self.card | dict(card or {}))
        other.card["backbone"] = self.card["backbone"]
        other.seen = self.seen
        return other

    def encode(self, inputs: Any, *, batch: int = 256, progress: Callable[[int], None] | None = None) -> Embedding:
        """The embedding of pictures, in order, on the CPU.

        `inputs`: paths, PIL pictures or arrays (H, W[, 3]) in a sequence; one uint8 array (N, H, W[, 3]); an
        `ImageSet`; or a loader that yields batches of normalised float tensors, alone or first in a tuple. `progress`
        is called with the number of pictures done. A picture that cannot be read is an error; `encode_set` skips it.
        """
        parts, done = [], 0
        for part in self._batches(inputs, batch):
            parts.append(self._encoded(part.pixels))
            done += len(part.pixels)
            if progress:
                progress(done)
        return _joined(parts)

    def encode_content(
        self, inputs: Any, *, batch: int = 256, measured: bool = False
    ) -> tuple[Embedding, np.ndarray | None, np.ndarray | None]:
        """The embedding as `encode` gives it, and content hashes (N,) of the pictures; None for tensors.

        With `measured` also measures (N, M) of their quality.
        """
        parts, content, measures = [], [], []
        for part in self._batches(inputs, batch, measured=measured):
            parts.append(self._encoded(part.pixels))
            content += [] if part.stored is None else [content_hashes(part.stored)]
            measures += [] if part.measures is None else [part.measures]
        hashes, quality = (np.concatenate(arrays) if arrays else None for arrays in (content, measures))
        return _joined(parts), hashes, quality

    def encode_split(self, inputs: Any, *, batch: int = 256) -> tuple[Embedding, Tensor | None]:
        """The embedding as `encode` gives it, and the epistemic part of each uncertainty, (N,).

        That part comes from the posterior of the weights; the rest is about the picture. It is 0 for a network without
        a posterior, and None where a posterior cannot separate the parts.
        """
        embeddings, parts = [], []
        for batched in self._batches(inputs, batch):
            with evaluating(self):
                features = self.backbone(batched.pixels.to(self.device))
                embedding = self._from_features(features)
                part = self.model_part(embedding, features)
            embeddings.append(embedding.to(device="cpu").checked())
            parts += [] if part is None else [part.cpu()]
        return _joined(embeddings), torch.cat(parts) if parts else None

    def model_part(self, embedding: Embedding, features: Tensor | None = None) -> Tensor | None:
        """The epistemic part of each uncertainty, (N,); None where it is unknown, or not known without features."""
        posterior = posterior_of(self.head)
        return posterior.model_part(embedding, features) if posterior else torch.zeros_like(embedding.uncertainty)

    def encode_stream(
        self, images: ImageSet, *, batch: int = 256, strict: bool = False, measured: bool = False
    ) -> Iterator[Encoded]:
        """The embedding of a set of any size, `batch` pictures at a time; unreadable ones are skipped and reported."""
        for chunk in data.stream(images, self.spec, batch=batch, strict=strict, measured=measured):
            embedding = self._encoded(self.spec.normalise(chunk.pixels.to(self.device)))
            part, content = images.subset(chunk.indices), content_hashes(chunk.pixels)
            yield Encoded(embedding, part, chunk.skipped, content, chunk.measures)

    def encode_set(
        self,
        images: ImageSet,
        *,
        strict: bool = False,
        measured: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Encoded:
        """The embedding of every readable picture of a set, and a report on the others; none readable is an error.

        With `measured` also measures of the quality of each.
        """
        parts: list[Encoded] = []
        skipped: list[Skipped] = []
        for part in self.encode_stream(images, strict=strict, measured=measured):
            parts.append(part)
            skipped.extend(part.skipped)
            if progress:
                progress(len(skipped) + sum(len(p.images) for p in parts))
        kept = [name for part in parts for name in part.images.ids]
        if not kept:
            raise data.none_readable(images, skipped)
        rows = {name: row for row, name in enumerate(images.ids)}
        measures = [part.measures for part in parts if part.measures is not None]
        return Encoded(
            cat([part.embedding for part in parts]),
            images.subset([rows[name] for name in kept]),
            tuple(skipped),
            np.concatenate([part.content for part in parts]),
            np.concatenate(measures) if measures else None,
        )

    def save(self, path: str | Path) -> None:
        """Write `weights.safetensors`, `seen.safetensors` if it has seen pictures, and `card.json`.

        Each is written whole or not at all; other files in the directory stay.
        """
        path = Path(path)
        weights, seen = self._weights(), self.seen
        path.mkdir(parents=True, exist_ok=True)
        card = self.card | {
            "format": FORMAT,
            "fingerprint": self._hash(weights),
            "howsure": __version__,
            "torch": torch.__version__,
            "seen": seen.save(path) if len(seen.hashes) else None,
        }
        write_whole(path / "weights.safetensors", weights)
        write_whole(path / "card.json", json.dumps(sealed(card), indent=2).encode())

    @classmethod
    def load(cls, path: str | Path, *, backbone: nn.Module | None = None, head: nn.Module | None = None) -> Embedder:
        """Read a model directory. A backbone or head that was your own module must be given again."""
        path = Path(path)
        card = read_card(path)
        parts: dict[str, Any] = {}
        for part, given, known in (("backbone", backbone, BACKBONES), ("head", head, HEADS)):
            if given is None and card.get(part) not in known:
                raise ModelError(
                    f"{part} of {path}",
                    expected=f"one of {', '.join(known)}",
                    got=repr(card.get(part)),
                    fix=f"it was trained with its own module: Embedder.load(path, {part}=...)",
                )
            parts[part] = given if given is not None else card[part]
        try:
            weights = (path / "weights.safetensors").read_bytes()
            embedder = cls(
                parts["backbone"], parts["head"], InputSpec.from_json(card["input"]), dim=card["dim"], card=card
            )
            if "posterior" in card:
                around, outer = build_posterior(embedder.backbone, embedder.head, card["posterior"])
                embedder = embedder.with_head(outer, backbone=around)
            embedder.load_state_dict(parse_weights(weights))
        except (OSError, SafetensorError, RuntimeError, KeyError) as error:
            got = " ".join(str(error).split())[:200]
            raise ModelError(f"weights of {path}", got=got, fix="train or copy the model again") from error
        if embedder._hash(weights) != card.get("fingerprint"):
            raise ModelError(f"weights of {path} are not the ones the card names", fix="train or copy the model again")
        if named := card.get("seen"):
            embedder._unread = partial(read_seen, path, named)
        return embedder.eval()

    def _hash(self, weights: bytes) -> str:
        posterior = self.card.get("posterior")  # the draws of another seed are other networks
        settings = json.dumps(posterior, sort_keys=True).encode() if posterior else b""
        return hashlib.sha256(weights + settings).hexdigest()[:16]

    def _weights(self) -> bytes:
        # Cloned, because safetensors takes no two names for one tensor, and tied layers have them.
        return weight_bytes({name: t.detach().cpu().contiguous().clone() for name, t in self.state_dict().items()})

    def _encoded(self, pixels: Tensor) -> Embedding:
        with evaluating(self):
            return self(pixels.to(self.device)).to(device="cpu").checked()

    def _batches(self, inputs: Any, batch: int, *, measured: bool = False) -> Iterable[_Batch]:
        """From whatever `encode` takes."""
        if isinstance(inputs, (str, Path, Image.Image)):
            inputs = [inputs]
        if isinstance(inputs, ImageSet):
            chunks = data.stream(inputs, self.spec, batch=batch, strict=True, measured=measured)
            return (self._batch(chunk.pixels, chunk.measures) for chunk in chunks)
        if isinstance(inputs, Tensor):
            return (_Batch(part) for part in inputs.split(batch))
        if isinstance(inputs, (Sequence, np.ndarray)):
            return self._picture_batches(inputs, batch, measured=measured)
        return (_Batch(item[0] if isinstance(item, (tuple, list)) else item) for item in inputs)

    def _batch(self, stored: Tensor, measures: np.ndarray | None) -> _Batch:
        return _Batch(self.spec.normalise(stored.to(self.device)), stored, measures)

    def _picture_batches(self, pictures: Sequence[Any] | np.ndarray, batch: int, *, measured: bool) -> Iterator[_Batch]:
        for start in range(0, len(pictures), batch):
            pixels, measures = [], []
            for item in pictures[start : start + batch]:
                picture = _picture(item)
                pixels.append(self.spec.pixels(picture))
                measures += [measure(picture, side=self.spec.side)] if measured else []
            yield self._batch(torch.from_numpy(np.stack(pixels)), np.array(measures) if measured else None)


def _joined(parts: list[Embedding]) -> Embedding:
    if not parts:
        raise InputError("encode", expected="at least one picture", got="none")
    return cat(parts)


def _picture(item: Any) -> Image.Image:
    if isinstance(item, np.ndarray):
        if item.dtype != np.uint8 or item.ndim not in (2, 3) or item.shape[2:] not in ((), (3,)):
            raise InputError("picture", expected="uint8 (H, W) or (H, W, 3)", got=f"{item.dtype} {item.shape}")
        return Image.fromarray(item)
    return data.decode(item)


def read_card(path: str | Path) -> dict[str, Any]:
    """The card of a model directory, checked."""
    file = Path(path) / "card.json"
    try:
        card = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelError(
            f"model {path}", expected="a directory with card.json", got="none", fix="howsure train DATA -o MODEL"
        ) from error
    except ValueError as error:
        raise ModelError(f"{file}", expected="JSON", got=str(error), fix="train or copy the model again") from error
    known = card.get("format") if isinstance(card, dict) else type(card).__name__
    if known not in (UNSEALED, FORMAT):
        expected, fix = f"format {UNSEALED} or {FORMAT}", "use the howsure version that wrote it"
        raise ModelError(f"{file}", expected=expected, got=str(known), fix=fix)
    if known == UNSEALED and CHECKSUM not in card:
        return card
    try:
        return unsealed(card, str(file))
    except ValueError as error:
        raise ModelError(str(error), fix="train or copy the model again") from error


def load(path: str | Path, *, backbone: nn.Module | None = None, head: nn.Module | None = None) -> Embedder:
    """Read a model directory: `Embedder.load`."""
    return Embedder.load(path, backbone=backbone, head=head)
