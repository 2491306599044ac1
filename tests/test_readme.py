"""The README and the pages in docs/ say only what works: Python blocks run, command lines parse."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
SHELLS = ("console", "sh", "bash")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int  # where its first line stands in the page


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2)) + 1) for m in FENCE.finditer(text)]


def python_blocks(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python"]


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every command in a page's shell blocks that starts with howsure or ./run; output is passed over."""
    for block in blocks(page):
        if block.language not in SHELLS:
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|&;<>")
            lexer.whitespace_split = True
            try:
                words = list(lexer)
            except ValueError:  # an apostrophe in printed output is no command
                continue
            end = next((i for i, word in enumerate(words) if set(word) <= set("|&;<>")), len(words))
            if words[:1] in (["howsure"], ["./run"]):
                yield words[:end]


CASES = [(page, words) for page in PAGES for words in commands(page)]


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.name)
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "snippet"}
    for block in python_blocks(page):
        # Blank lines in front make a traceback point at the line of the page.
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)


def test_the_readme_shows_python_and_commands():
    readme = ROOT / "README.md"
    assert python_blocks(readme), "README.md has no python block"
    assert [words for page, words in CASES if page == readme], "README.md shows no command"


@pytest.mark.parametrize(("page", "words"), CASES, ids=[f"{page.name}: {' '.join(words)}" for page, words in CASES])
def test_a_command_line_is_one_that_exists(page, words):
    program, *rest = words
    (check_run if program == "./run" else check_howsure)(rest)


def check_run(words: list[str]) -> None:
    verbs = set(re.findall(r"^    \./run (\w+)", (ROOT / "run").read_text(encoding="utf-8"), re.MULTILINE))
    assert verbs
    assert words
    assert words[0] in verbs


def check_howsure(words: list[str]) -> None:
    """Parse without running: an unknown verb or option, or a missing argument, raises."""
    import typer
    from typer.main import get_command

    from howsure.cli.app import app

    try:
        context = get_command(app).make_context("howsure", list(words))
        name, verb, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        verb.make_context(name, rest, parent=context)
    except typer.Exit as stop:  # --help and --version end here
        if stop.exit_code:
            raise


def inline_commands() -> list[tuple[str, list[str]]]:
    """`howsure VERB ...` in running text, which may leave out arguments."""
    texts = {page: FENCE.sub("", page.read_text(encoding="utf-8")) for page in PAGES}
    return [(page.name, m.split()) for page, text in texts.items() for m in re.findall(r"`howsure ([a-z][^`]*)`", text)]


def test_verbs_and_options_in_running_text_exist():
    from typer.main import get_command

    from howsure.cli.app import app

    verbs = get_command(app).commands
    for page, (verb, *rest) in inline_commands():
        assert verb in verbs, page
        below = getattr(verbs[verb], "commands", {})  # a verb may have verbs of its own
        spoken = below.get(rest[0] if rest else "", below.get("run", verbs[verb]))
        known = {option for param in spoken.params for option in param.opts}
        assert {word for word in rest if word.startswith("-")} <= known, f"{page}: howsure {verb} {' '.join(rest)}"


@pytest.mark.parametrize("wrong", ["howsure trian d -o m", "howsure train d -o m --epoch 3", "howsure train d"])
def test_a_wrong_command_line_is_noticed(wrong):
    import typer

    with pytest.raises(typer.TyperException):
        check_howsure(shlex.split(wrong)[1:])


def test_output_and_pipes_are_no_part_of_a_command(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ howsure search g a.png \\\n    --json | head\nit's output\n./run test\n```\n")
    assert list(commands(page)) == [["howsure", "search", "g", "a.png", "--json"], ["./run", "test"]]


def catalogue_names() -> list[str]:
    from howsure import metrics
    from howsure.backbones import BACKBONES
    from howsure.data import AUGMENTATIONS
    from howsure.data.sets import SETS
    from howsure.embeddings.base import FAMILIES
    from howsure.heads import HEADS
    from howsure.losses import LOSSES, MINERS

    functions = [name for name in metrics.__all__ if name.islower()]
    return [*FAMILIES, *HEADS, *LOSSES, *MINERS, *AUGMENTATIONS, *BACKBONES, *SETS, *functions]


def test_everything_has_a_line_in_the_catalogue():
    lines = (ROOT / "docs" / "catalogue.md").read_text(encoding="utf-8").splitlines()
    firsts = {name for line in lines if line.startswith("|") for name in re.findall(r"`([\w-]+)`", line.split("|")[1])}
    assert sorted(set(catalogue_names()) - firsts) == []


def test_files_that_are_named_exist():
    catalogue = (ROOT / "docs" / "catalogue.md").read_text(encoding="utf-8")
    files = [ROOT / "src" / "howsure" / name for name in re.findall(r"`([\w/]+\.py)` \|$", catalogue, re.MULTILINE)]
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files += [ROOT / name for name in re.findall(r"`((?:src|tests|docs)/[\w/.]+)`", guide) if "NAME" not in name]
    assert len(files) > 40
    assert [file for file in files if not file.exists() and "posteriors" not in file.parts] == []
