"""Galleries by path and by URL, exported and imported, as a user would type it."""

import numpy as np


def test_index_search_export_and_import_on_every_engine(run, model, urls, tmp_path, pictures):
    gallery, other, file = urls(), urls(), tmp_path / "gallery.npz"
    made = run("index", pictures, "-m", model, "-o", gallery, "--json")
    assert (made.code, made.json["items"], made.json["added"]) == (0, 200, 200), made.err
    again = run("index", pictures, "-m", model, "-o", gallery, "--json")
    assert (again.json["added"], again.json["unchanged"]) == (0, 200)

    picture = next(pictures.rglob("*.png"))
    found = run("search", gallery, picture, "-k", 3, "--json").json
    assert found[0]["matches"][0]["id"].endswith(picture.name)
    assert len(found[0]["matches"]) == 3

    assert run("export", gallery, "-o", file).out == f"{file}: 200 items\n"
    assert run("import", file, "-o", other).out == f"{other}: 200 items (200 added)\n"
    assert run("import", file, "-o", other).out == f"{other}: 200 items (200 unchanged)\n"
    assert run("search", other, picture, "-k", 3, "--json").json == found

    gone = found[0]["matches"][0]["id"]
    assert run("index", "-o", other, "--remove", gone, "--json").json["items"] == 199
    assert run("import", file, "-o", other, "--json").json == {
        "gallery": other, "items": 200, "added": 1, "unchanged": 199,
    }  # fmt: skip


def test_what_embed_wrote_becomes_a_gallery(run, model, pictures, tmp_path):
    assert run("embed", model, pictures, "-o", tmp_path / "embeddings.npz").code == 0
    assert run("import", tmp_path / "embeddings.npz", "-o", tmp_path / "gallery", "--json").json["items"] == 200
    assert run("search", tmp_path / "gallery", next(pictures.rglob("*.png"))).code == 0


def test_what_does_not_belong_together_is_refused(run, model, pictures, tmp_path):
    run("embed", model, pictures, "-o", tmp_path / "embeddings.npz")
    with np.load(tmp_path / "embeddings.npz") as arrays:
        rest = {name: array for name, array in arrays.items() if name != "about"}
    np.savez(tmp_path / "other.npz", **rest)
    run("import", tmp_path / "embeddings.npz", "-o", tmp_path / "gallery")
    refused = run("import", tmp_path / "other.npz", "-o", tmp_path / "gallery")
    assert refused.code == 2
    assert "expected the model that made it" in refused.err
    for arguments in (["export", "milvs://h/c", "-o", tmp_path / "x.npz"], ["search", "milvs://h/c", "x.png"]):
        refused = run(*arguments)
        assert refused.code == 2
        assert "did you mean milvus://?" in refused.err
