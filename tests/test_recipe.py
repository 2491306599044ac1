from pathlib import Path

import pytest

from howsure.backbones import BACKBONES
from howsure.data import InputSpec
from howsure.errors import InputError
from howsure.losses import build_loss
from howsure.recipe import SHIPPED, Recipe, read_recipe, recipe_for


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.toml")), ids=lambda file: file.stem)
def test_shipped_recipes_can_be_trained(file: Path) -> None:
    recipe = read_recipe(file)
    assert recipe.backbone in BACKBONES
    InputSpec(recipe.height, recipe.width, recipe.channels, recipe.pixel_mean, recipe.pixel_std)
    build_loss(recipe.loss or "contrastive", miner=recipe.miner, options=recipe.loss_options)


@pytest.mark.parametrize("source", ["digits", "digits:test", "digits:train@!8,9", "digits@1"])
def test_a_set_has_its_recipe(source: str) -> None:
    assert recipe_for(source) == read_recipe(SHIPPED / "digits.toml") != Recipe()


@pytest.mark.parametrize("source", ["photos", "photos/", "/data/mnist", "a/mnist", "./digits", "", "..", "list.csv"])
def test_anything_else_has_the_default_one(source: str) -> None:
    assert recipe_for(source) == read_recipe(SHIPPED / "default.toml")


def test_unknown_key_suggests() -> None:
    with pytest.raises(InputError, match="did you mean learning_rate"):
        Recipe.from_json({"learningrate": 1})
    with pytest.raises(InputError, match="keys are method"):
        Recipe.from_json({"zzzzzz": 1})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("epochs", 0),
        ("epochs", 1.5),
        ("epochs", "3"),
        ("epochs", True),
        ("channels", 2),
        ("learning_rate", -1),
        ("learning_rate", float("nan")),
        ("validation_share", 0.5),
        ("classes_per_batch", 1),
        ("pixel_mean", ["a"]),
        ("loss_options", {"margin": [0.1]}),
        ("seed", -1),
    ],
)
def test_bad_value_names_the_key(key: str, value: object) -> None:
    with pytest.raises(InputError) as caught:
        Recipe.from_json({key: value})
    assert key in caught.value.what
    assert caught.value.expected
    assert caught.value.got


def test_a_date_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="epochs"):
        read_recipe(written(tmp_path / "mine.toml", "epochs = 2024-01-01"))


def test_but_changes_what_is_given() -> None:
    recipe = Recipe().but(epochs=3, dim=None)
    assert (recipe.epochs, recipe.dim) == (3, Recipe().dim)
    assert Recipe().differences(recipe) == ["epochs: 8 -> 3"]
    assert Recipe().differences(Recipe()) == []
    with pytest.raises(InputError, match="did you mean epochs"):
        Recipe().but(epoch=3)


def test_a_recipe_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Recipe().epochs = 3  # type: ignore[misc]


def test_extends_a_chain(tmp_path: Path) -> None:
    written(tmp_path / "base.toml", 'extends = "digits"\nepochs = 3\ndim = 5')
    mine = read_recipe(written(tmp_path / "mine.toml", 'extends = "base.toml"\ndim = 6'))
    digits = read_recipe(SHIPPED / "digits.toml")
    assert mine == digits.but(epochs=3, dim=6)


def test_extends_itself(tmp_path: Path) -> None:
    written(tmp_path / "a.toml", 'extends = "b.toml"')
    written(tmp_path / "b.toml", 'extends = "a.toml"')
    with pytest.raises(InputError, match="extends itself"):
        read_recipe(tmp_path / "a.toml")


def test_extends_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="digits"):
        read_recipe(written(tmp_path / "a.toml", 'extends = "nothing"'))


def test_missing_or_malformed_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InputError, match="expected a TOML file"):
            read_recipe(path)
    with pytest.raises(InputError, match="expected TOML"):
        read_recipe(written(tmp_path / "bad.toml", "epochs ="))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="expected TOML"):
        read_recipe(tmp_path / "binary.toml")


def test_options_keep_whole_numbers_whole() -> None:
    options = Recipe.from_json({"loss_options": {"num_classes": 3, "margin": 0.5}}).loss_options
    assert [type(value) for value in options.values()] == [int, float]


def test_another_loss_starts_from_its_own_defaults() -> None:
    fashion = recipe_for("fashion-mnist")
    assert fashion.loss_options
    assert fashion.but(method="point", epochs=2).loss_options == fashion.loss_options
    assert fashion.but(method="gaussian").loss_options == fashion.loss_options
    assert fashion.but(loss="triplet").loss_options == {}
    assert fashion.but(loss="triplet", loss_options={"margin": 0.3}).loss_options == {"margin": 0.3}
