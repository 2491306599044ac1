"""The set-up script: what it refuses, and when it installs. Nothing is downloaded here."""

import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "run"


@pytest.fixture
def clone(tmp_path):
    """A directory with the script and what it reads, without .venv."""
    for name in ("run", "pyproject.toml", "constraints.txt"):
        shutil.copy(SCRIPT.parent / name, tmp_path)
    (tmp_path / "benchmarks").mkdir()
    for name in ("form", "search"):
        (tmp_path / "benchmarks" / f"{name}.py").write_text("")
    return tmp_path


def load(path: Path) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("run_script", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_script", loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def script(clone, monkeypatch):
    """The script as a module whose installer only notes what it was asked for, and whose .venv is an empty shell."""
    module = load(clone / "run")
    module.asked, module.made = [], 0

    def make_venv() -> None:
        module.made += 1
        module.PYTHON.parent.mkdir(parents=True)
        module.PYTHON.symlink_to(sys.executable)
        (module.VENV / "pyvenv.cfg").write_text("version = 3.11.7\n")

    monkeypatch.setattr(module, "make_venv", make_venv)
    monkeypatch.setattr(module, "has_pip", lambda: True)
    monkeypatch.setattr(module, "install", module.asked.append)
    return module


def call(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, clone / "run", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no verb; try one of: demo, test, check, docs, speed"),
        (["tset"], "no verb 'tset'; did you mean test?"),
        (["xyzzy"], "no verb 'xyzzy'; try one of: demo, test, check, docs, speed"),
        (["speed", "serach"], "no speed script 'serach'; did you mean search?"),
        (["speed", "form"], "no speed script 'form'; try one of: search"),
        (["bench"], "./run speed now (how fast it is); published tables are howsure bench"),
        (["bench", "search", "--quick"], "./run speed now"),
        (["check", "src"], "check takes no arguments"),
        (["docs", "site"], "docs takes no arguments"),
    ],
)
def test_bad_usage_is_explained_and_installs_nothing(clone, arguments, said):
    done = call(clone, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "./run demo" in done.stderr
    assert done.stdout == ""
    assert not (clone / ".venv").exists()


def test_the_docs_are_built_strictly(script, monkeypatch):
    called = []
    monkeypatch.setattr(script, "call", lambda command, **_: called.append(command) or 0)
    assert script.main(["docs"]) == 0
    assert script.asked == [("docs",)]
    (command,) = called
    assert command[1:4] == ["-m", "mkdocs", "build"]
    assert "--strict" in command
    assert "--quiet" not in command  # it drops the warnings that --strict counts


def test_ci_builds_the_docs_after_the_checks():
    lines = (SCRIPT.parent / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    steps = [line.split()[1] for line in lines if line.startswith("./run ")]
    assert steps.index("check") < steps.index("docs")


def test_help_is_no_error(clone):
    done = call(clone, "--help")
    assert done.returncode == 0
    assert "./run speed" in done.stdout
    assert not (clone / ".venv").exists()


def test_the_script_is_executable():
    assert os.access(SCRIPT, os.X_OK)
    assert SCRIPT.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3\n")


def test_an_old_python_is_told_so(clone, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer, this is 3\.9\.18"):
        load(clone / "run")


def test_installs_once_for_the_same_files(script):
    script.ensure_installed(("plots",))
    script.ensure_installed(("plots",))
    assert script.asked == [("plots",)]


def test_a_wider_set_of_extras_covers_a_narrower_one(script):
    script.ensure_installed(("plots",))
    script.ensure_installed(("plots", "test"))
    script.ensure_installed(("plots",))
    assert script.asked == [("plots",), ("plots", "test")]


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt"])
def test_changed_requirements_install_again_into_the_same_venv(script, clone, file):
    script.ensure_installed(("plots", "test"))
    with (clone / file).open("a") as text:
        text.write("\n# changed\n")
    script.ensure_installed(("plots",))
    script.ensure_installed(("plots", "test"))  # what was there before the change does not count any more
    assert script.asked == [("plots", "test"), ("plots",), ("plots", "test")]
    assert script.made == 1


def test_an_interrupted_install_starts_over(script, monkeypatch):
    script.ensure_installed(("plots",))

    def interrupted(extras):
        raise KeyboardInterrupt

    monkeypatch.setattr(script, "install", interrupted)
    with pytest.raises(KeyboardInterrupt):
        script.ensure_installed(("plots", "test"))
    assert not script.STAMP.exists()
    monkeypatch.setattr(script, "install", script.asked.append)
    script.ensure_installed(("plots",))
    assert script.asked == [("plots",), ("plots",)]


def test_a_venv_without_python_is_made_again(script):
    script.ensure_installed(("plots",))
    script.PYTHON.unlink()
    script.PYTHON.symlink_to(script.VENV / "gone")
    script.ensure_installed(("plots",))
    assert script.made == 2
    assert len(script.asked) == 2


def test_a_venv_that_was_never_finished_is_made_again(script, monkeypatch):
    script.make_venv()
    monkeypatch.setattr(script, "has_pip", lambda: False)
    script.ensure_installed(("plots",))
    assert script.made == 2


def test_a_moved_clone_is_set_up_again(script):
    script.ensure_installed(("plots",))
    stamp = json.loads(script.STAMP.read_text())
    script.STAMP.write_text(json.dumps(stamp | {"root": "/elsewhere", "key": "of another place"}))
    script.ensure_installed(("plots",))
    assert script.made == 2


def test_uv_is_told_what_pip_knows(script, monkeypatch):
    listed = (
        "global.find-links='/file/a /file/b'\n:env:.find-links='/env/a /env/b'\ninstall.extra-index-url='x y'\n"
        "download.index-url='not for us'\nglobal.cert='/c.pem'\n"
    )
    answer = subprocess.CompletedProcess([], 0, stdout=listed)
    monkeypatch.setattr(script.subprocess, "run", lambda *_, **__: answer)
    for name in ("UV_FIND_LINKS", "UV_INDEX", "UV_DEFAULT_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", "/mine.pem")
    told = script.uv_environment()
    assert told["UV_FIND_LINKS"] == "/env/a,/env/b"
    assert told["UV_INDEX"] == "x y"
    assert told["SSL_CERT_FILE"] == "/mine.pem"
    assert "UV_DEFAULT_INDEX" not in told


def test_a_job_ends_with_its_own_code(script):
    assert script.call([sys.executable, "-c", "raise SystemExit(7)"]) == 7
    assert script.call([sys.executable, "-c", "import os; os.kill(os.getpid(), 15)"]) == 128 + 15


def test_speed_rows_become_one_list(script, clone, monkeypatch, capsys):
    monkeypatch.setattr(script, "PYTHON", Path(sys.executable))
    for name in ("search", "train"):
        (clone / "benchmarks" / f"{name}.py").write_text(f'print(\'[{{"what": "{name}"}}]\')')
    (clone / "benchmarks" / "broken.py").write_text("raise SystemExit(3)")
    assert script.speed(["search", "train"], ["--json"]) == 0
    assert [row["what"] for row in json.loads(capsys.readouterr().out)] == ["search", "train"]
    assert script.speed(["broken", "train"], ["--json"]) == 3
    printed = capsys.readouterr()
    assert [row["what"] for row in json.loads(printed.out)] == ["train"]
    assert "speed broken printed no JSON" in printed.err


def test_the_scripts_of_the_web_app_are_checked_where_there_is_node(script, monkeypatch, capsys):
    monkeypatch.setattr(script.shutil, "which", lambda name: None)
    assert script.pages() == {}
    assert "check pages: skipped, there is no Node" in capsys.readouterr().err
    monkeypatch.setattr(script.shutil, "which", lambda name: f"/bin/{name}")
    command = script.pages()["pages"]
    assert command[0] == "/bin/npx"
    assert {"--checkJs", "--strict"} < set(command)
    assert (SCRIPT.parent / command[-1]).is_file()
