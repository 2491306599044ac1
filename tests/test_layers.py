"""No package of the library is a circle: between the parts of every package, imports go one way."""

import ast
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"


def imported(file: Path) -> Iterator[str]:
    """The modules of the library that a file imports when it runs, whether at its top or inside a function."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typed = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for part in branch.body
        for node in ast.walk(part)
    }
    for node in ast.walk(tree):
        if node in typed:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("howsure"))
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("howsure"):
            for alias in node.names:
                deeper = SRC / Path(*node.module.split("."), alias.name)
                inside = deeper.with_suffix(".py").is_file() or deeper.is_dir()
                yield f"{node.module}.{alias.name}" if inside else node.module


def module_of(file: Path) -> str:
    parts = file.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def siblings(package: str, imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """Which parts of a package import which others; its `__init__`, which only gathers, is none."""
    prefix = f"{package}."
    graph: dict[str, set[str]] = {}
    for module, targets in imports.items():
        if not module.startswith(prefix):
            continue
        part = module.removeprefix(prefix).split(".")[0]
        others = {name.removeprefix(prefix).split(".")[0] for name in targets if name.startswith(prefix)}
        graph.setdefault(part, set()).update(others - {part})
    return graph


def circles(graph: dict[str, set[str]]) -> list[str]:
    """Parts that reach themselves."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            if (one := waiting.pop()) not in seen:
                seen.add(one)
                waiting += graph.get(one, ())
        return seen

    return sorted(part for part in graph if part in reached(part))


def test_circles_are_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c"]


def test_no_package_is_a_circle() -> None:
    files = sorted(SRC.rglob("*.py"))
    imports = {module_of(file): set(imported(file)) for file in files}
    packages = [module_of(file) for file in files if file.name == "__init__.py"]
    assert len(packages) > 20
    found = {package: circles(siblings(package, imports)) for package in packages}
    assert {package: parts for package, parts in found.items() if parts} == {}
