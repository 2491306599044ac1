"""The door of the package: what is public, documented, and how little opening it costs."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import howsure

PUBLIC = {
    "Answer",
    "Client",
    "Draws",
    "Embedder",
    "Embedding",
    "Finding",
    "Gallery",
    "Gaussian",
    "GaussianMixture",
    "HowsureError",
    "Index",
    "InputSpec",
    "Matcher",
    "Matches",
    "NovelGaussian",
    "Point",
    "Policy",
    "Recipe",
    "VonMisesFisher",
    "ask",
    "calibrate",
    "cat",
    "connect",
    "dropout",
    "ensemble",
    "evaluate",
    "expected_match_probability",
    "expected_similarity",
    "expected_squared_distance",
    "laplace",
    "load",
    "match_probability",
    "mutual_likelihood",
    "recipe_for",
    "restore",
    "rms_distance",
    "self_mismatch",
    "train",
}
ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "numpy", "scipy", "sklearn", "faiss", "PIL", "matplotlib", "pytorch_metric_learning", "safetensors")


def test_the_public_names_are_these():
    assert set(howsure.__all__) == PUBLIC
    assert howsure.__all__ == sorted(howsure.__all__)
    assert set(dir(howsure)) == PUBLIC | {"__version__"}


def test_the_reference_lists_the_public_names():
    page = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_name_is_there_and_documented(name):
    found = getattr(howsure, name)
    home = found.__name__ if inspect.ismodule(found) else found.__module__
    assert home.startswith("howsure.")
    # A class without a docstring would show its parent's through getdoc.
    assert (found.__doc__ or "").strip(), f"{name} has no docstring"
    assert inspect.ismodule(found) == (name in ("laplace", "ensemble", "dropout"))


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Gausian'"):
        howsure.Gausian  # noqa: B018 - looking it up is the test


def test_the_door_stays_small():
    assert len(howsure.__all__) <= 40


def loaded_after(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after running `code`."""
    report = f"import sys\n{code}\nprint(*(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_after("import howsure") == set()


def test_a_public_name_loads_what_it_needs():
    assert "torch" in loaded_after("import howsure; howsure.Gaussian")


HELP = """
sys.argv = ["howsure", *{words}]
from howsure.cli.app import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(words):
    assert loaded_after(HELP.format(words=words)) == set()


def imported_packages(file: Path) -> set[str]:
    """The outermost names that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(str(node.module).partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"howsure"}


def test_every_import_is_a_declared_requirement():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    # What the test extra brings does not count.
    ours = ("plots", "web", "postgres", "milvus", "pretrained")
    lines = project["dependencies"] + [line for name in ours for line in extras[name]]
    declared = {re.split(r"[\[<>=]", line)[0] for line in lines}
    homes = {"pymilvus": ["pymilvus"], "grpc": ["grpcio"]} | packages_distributions()  # these need not be installed
    files = sorted((ROOT / "src").rglob("*.py"))
    imported = {(name, file.relative_to(ROOT).as_posix()) for file in files for name in imported_packages(file)}
    assert {name for name, _ in imported} > {"torch", "numpy", "PIL"}
    assert [use for use in sorted(imported) if not declared & {home.lower() for home in homes.get(use[0], [])}] == []
