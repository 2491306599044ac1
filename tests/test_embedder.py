import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from howsure.data import ArrayImages, InputSpec, load
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, Gaussian, Point
from howsure.errors import DataError, InputError, ModelError
from howsure.heads import PointHead
from laws import same

SPEC = InputSpec(8, 8, 1, (0.2,), (0.5,))


@pytest.fixture
def embedder() -> Embedder:
    torch.manual_seed(0)
    return Embedder("mlp", "gaussian", SPEC, dim=4, card={"classes": ["a", "b"]})


@pytest.fixture
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (7, 8, 8), dtype=np.uint8)


def image_set(pictures: np.ndarray) -> ArrayImages:
    return ArrayImages("tiny", tuple(f"p{i}" for i in range(len(pictures))), (None,) * len(pictures), pictures)


def saved_files(pictures: np.ndarray, folder: Path) -> list[Path]:
    for i, picture in enumerate(pictures):
        Image.fromarray(picture).save(folder / f"{i}.png")
    return [folder / f"{i}.png" for i in range(len(pictures))]


# Encoding


def test_every_kind_of_input_gives_the_same_embedding(embedder: Embedder, pictures: np.ndarray, tmp_path: Path) -> None:
    paths = saved_files(pictures, tmp_path)
    pixels = SPEC.normalise(torch.from_numpy(pictures[:, None]))

    def batches() -> Iterator[tuple[Tensor, int]]:
        yield from ((part, 0) for part in pixels.split(3))

    with torch.no_grad():
        wanted = embedder.eval()(pixels)
    inputs = {
        "paths": paths,
        "text": [str(path) for path in paths],
        "pillow": [Image.open(path) for path in paths],
        "list of arrays": list(pictures),
        "array": pictures,
        "set in memory": image_set(pictures),
        "set of files": load(tmp_path),
        "tensor": pixels,
        "loader of tensors": iter(pixels.split(2)),
        "loader of tuples": batches(),
        "torch loader": torch.utils.data.DataLoader(torch.utils.data.TensorDataset(pixels), batch_size=4),
    }
    for kind, given in inputs.items():
        embedding = embedder.encode(given, batch=3)
        assert torch.allclose(embedding.mean, wanted.mean, atol=1e-6), kind
        assert torch.allclose(embedding.variance, wanted.variance, atol=1e-6), kind


def test_one_picture_needs_no_list(embedder: Embedder, pictures: np.ndarray, tmp_path: Path) -> None:
    path = saved_files(pictures[:1], tmp_path)[0]
    for given in (path, str(path), Image.open(path)):
        assert torch.allclose(embedder.encode(given).mean, embedder.encode(pictures[:1]).mean, atol=1e-6)


def test_colour_arrays(pictures: np.ndarray) -> None:
    embedder = Embedder("mlp", "point", InputSpec(8, 8, 3, (0.0,) * 3, (1.0,) * 3), dim=2)
    colour = np.repeat(pictures[..., None], 3, axis=-1)
    assert torch.allclose(embedder.encode(colour).mean, embedder.encode(pictures).mean, atol=1e-6)


def test_progress_counts_pictures(embedder: Embedder, pictures: np.ndarray) -> None:
    done: list[int] = []
    embedder.encode(pictures, batch=3, progress=done.append)
    assert done == [3, 6, 7]


def test_encode_leaves_modes_and_statistics_alone(pictures: np.ndarray) -> None:
    embedder = Embedder(nn.Sequential(nn.BatchNorm2d(1), nn.Dropout(0.5), nn.Flatten()), "point", SPEC, dim=3)
    norm, dropout = embedder.backbone[0], embedder.backbone[1]
    embedder.train()
    norm.eval()  # frozen on purpose
    first = embedder.encode(pictures)
    assert same(embedder.encode(pictures), first)
    assert (embedder.training, dropout.training, norm.training) == (True, True, False)
    embedder.train()
    embedder.encode(pictures)
    assert norm.num_batches_tracked == 0
    assert not embedder.eval().encode(pictures).mean.requires_grad
    assert not embedder.training


def test_encode_restores_the_mode_after_an_error(embedder: Embedder, tmp_path: Path) -> None:
    embedder.train()
    with pytest.raises(DataError):
        embedder.encode([tmp_path / "none.png"])
    assert embedder.training


@pytest.mark.parametrize("nothing", [[], np.zeros((0, 8, 8), np.uint8), iter(())])
def test_encode_nothing(embedder: Embedder, nothing: object) -> None:
    with pytest.raises(InputError, match="at least one picture"):
        embedder.encode(nothing)


@pytest.mark.parametrize(
    "given",
    [np.zeros((2, 8, 8)), np.zeros((8, 8), np.uint8), [np.zeros((8, 8, 1), np.uint8)], [np.zeros((8, 8, 2), np.uint8)]],
    ids=["floats", "one picture", "one channel axis", "two channels"],
)
def test_arrays_that_are_no_pictures(embedder: Embedder, given: object) -> None:
    with pytest.raises(InputError, match="uint8"):
        embedder.encode(given)


def test_tensors_that_are_not_normalised(embedder: Embedder) -> None:
    with pytest.raises(InputError, match="normalise"):
        embedder.encode(torch.zeros(2, 1, 8, 8, dtype=torch.uint8))
    with pytest.raises(InputError, match="normalise"):
        embedder.encode(torch.zeros(1, 8, 8))


def test_weights_gone_wrong_are_noticed(embedder: Embedder, pictures: np.ndarray) -> None:
    with torch.no_grad():
        embedder.head.location.weight[0, 0] = torch.nan
    with pytest.raises(InputError, match="NaN"):
        embedder.encode(pictures)


def test_unreadable_pictures(embedder: Embedder, pictures: np.ndarray, tmp_path: Path) -> None:
    paths = saved_files(pictures, tmp_path)
    paths[2].write_bytes(b"")
    paths[5].write_bytes(paths[5].read_bytes()[:40])
    images = load(tmp_path)
    with pytest.raises(DataError, match=re.escape(str(paths[2]))):
        embedder.encode(paths)
    with pytest.raises(DataError):
        embedder.encode(images)
    with pytest.raises(DataError):
        embedder.encode_set(images, strict=True)

    found = embedder.encode_set(images)
    assert [Path(skipped.path or "").name for skipped in found.skipped] == ["2.png", "5.png"]
    assert all(skipped.reason for skipped in found.skipped)
    assert [path.name for path in found.images.paths] == ["0.png", "1.png", "3.png", "4.png", "6.png"]
    wanted = embedder.encode(pictures[[0, 1, 3, 4, 6]])
    assert torch.allclose(found.embedding.mean, wanted.mean, atol=1e-6)


def test_a_stream_covers_the_set_in_order(embedder: Embedder, pictures: np.ndarray) -> None:
    parts = list(embedder.encode_stream(image_set(pictures), batch=3))
    assert [len(part.images) for part in parts] == [3, 3, 1]
    assert [name for part in parts for name in part.images.ids] == [f"p{i}" for i in range(7)]
    means = torch.cat([part.embedding.mean for part in parts])
    assert torch.allclose(means, embedder.encode(pictures).mean, atol=1e-6)


def test_a_set_without_a_readable_picture(embedder: Embedder, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(DataError, match="empty file"):
        embedder.encode_set(load(tmp_path))


# Networks of one's own


class _Softly(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(64, 6)

    def forward(self, features: Tensor) -> Gaussian:
        location, scale = self.inner(features).split([5, 1], -1)
        return Gaussian(location, nn.functional.softplus(scale))


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)
        self.b.weight = self.a.weight

    def forward(self, pixels: Tensor) -> Tensor:
        return self.b(self.a(pixels.flatten(1)).relu())


class _Bare(nn.Module):
    def forward(self, features: Tensor) -> Point:
        return Point(features)


def reloaded(embedder: Embedder, folder: Path, **parts: nn.Module) -> Embedder:
    embedder.save(folder)
    return Embedder.load(folder, **parts)


def test_foreign_backbone_and_head(pictures: np.ndarray, tmp_path: Path) -> None:
    embedder = Embedder(_Tied(), _Softly(), SPEC)
    before = embedder.encode(pictures)
    assert before.mean.shape == (7, 5)
    assert embedder.card["backbone"] == embedder.card["head"] == "foreign"
    again = reloaded(embedder, tmp_path, backbone=_Tied(), head=_Softly())
    assert same(again.encode(pictures), before)


def test_foreign_parts_must_be_given_again(tmp_path: Path) -> None:
    Embedder(_Tied(), "point", SPEC, dim=3).save(tmp_path / "a")
    with pytest.raises(ModelError, match=r"Embedder.load\(path, backbone="):
        Embedder.load(tmp_path / "a")
    Embedder("mlp", _Softly(), SPEC).save(tmp_path / "b")
    with pytest.raises(ModelError, match=r"Embedder.load\(path, head="):
        Embedder.load(tmp_path / "b")
    with pytest.raises(ModelError, match=r"size mismatch|[Mm]issing key"):
        Embedder.load(tmp_path / "b", head=PointHead(64, 4))


def test_our_head_as_a_module_reloads_by_name(pictures: np.ndarray, tmp_path: Path) -> None:
    embedder = Embedder("mlp", PointHead(64, 5), SPEC)
    assert embedder.card["dim"] == 5
    assert same(reloaded(embedder, tmp_path).encode(pictures), embedder.encode(pictures))


def test_a_network_without_weights(pictures: np.ndarray, tmp_path: Path) -> None:
    embedder = Embedder(nn.Flatten(), _Bare(), SPEC)
    assert embedder.encode(pictures).mean.shape == (7, 64)
    assert same(
        reloaded(embedder, tmp_path, backbone=nn.Flatten(), head=_Bare()).encode(pictures), embedder.encode(pictures)
    )


def test_a_head_that_gives_no_embedding(pictures: np.ndarray) -> None:
    with pytest.raises(InputError, match="expected an Embedding, got Tensor"):
        Embedder("mlp", nn.Linear(64, 3), SPEC).encode(pictures)


def test_a_head_by_name_needs_a_dimension() -> None:
    with pytest.raises(InputError, match="dim"):
        Embedder("mlp", "point", SPEC)


def test_batches_do_not_change_embeddings(embedder: Embedder, pictures: np.ndarray) -> None:
    def means(batch: int) -> Tensor:
        embedding: Embedding = embedder.encode(pictures, batch=batch)
        return embedding.mean

    assert torch.allclose(means(1), means(256), atol=1e-6)
