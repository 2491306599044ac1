"""The command line: one verb a file. Nothing heavy is imported before a verb runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from howsure import __version__
from howsure.cli import (
    backbones,
    bench,
    calibrate,
    cluster,
    demo,
    embed,
    ensemble,
    evaluate,
    export,
    gate,
    import_,
    index,
    label,
    label_next,
    laplace,
    search,
    serve,
    track,
    train,
    verify,
)
from howsure.errors import HowsureError

app = typer.Typer(
    name="howsure",
    help="Embeddings that tell you how sure they are.",
    epilog="Start with: howsure demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help needs no rich, and comes at once
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("laplace")(laplace.laplace)
app.command("ensemble")(ensemble.ensemble)
app.command("calibrate")(calibrate.calibrate)
app.command("index")(index.index)
app.command("search")(search.search)
app.command("label")(label.label)
app.command("serve")(serve.serve)
app.command("export")(export.export)
app.command("import")(import_.import_)
app.command("verify")(verify.verify)
app.command("embed")(embed.embed)
app.command("evaluate")(evaluate.evaluate)
app.command("cluster")(cluster.cluster)
app.command("track")(track.track)
app.command("gate")(gate.gate)
app.command("label-next")(label_next.label_next)
app.command("backbones")(backbones.backbones)
app.add_typer(bench.bench, name="bench")


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; works anywhere.")] = False,
) -> None:
    """Embeddings that tell you how sure they are."""


def main() -> None:
    """Run a verb; every error a user can cause is one line on stderr and exit code 2."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"howsure {__version__}")
        return
    debug = "--debug" in arguments
    try:
        app(args=[argument for argument in arguments if argument != "--debug"])
    except HowsureError as error:
        if debug:
            raise
        print(f"howsure: {error}", file=sys.stderr)
        sys.exit(2)
