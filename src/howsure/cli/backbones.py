"""howsure backbones: the pretrained networks, and which of them are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from howsure.cli.console import Json, print_json

if TYPE_CHECKING:
    from howsure.backbones import Pretrained

PICTURES = 8  # of a pass that is timed


def backbones(
    timed: Annotated[bool, typer.Option("--time", help="Also measure how fast each is here.")] = False,
    as_json: Json = False,
) -> None:
    """List the networks with pretrained weights: what they are for, and what installs them."""
    from howsure.backbones import PRETRAINED
    from howsure.backbones.pretrained import REFERENCES

    rows = [_row(entry, timed=timed) for entry in PRETRAINED.values()]
    if as_json:
        print_json({"backbones": rows, "references": REFERENCES})
        return
    for row in rows:
        print(_line(row))
    print("recall@1 of the bare features: " + "; ".join(f"{name}, {what}" for name, what in REFERENCES.items()))
    print("next: howsure train DATA -o MODEL --recipe pretrained")


def _row(entry: Pretrained, *, timed: bool) -> dict[str, Any]:
    return {
        "name": entry.name,
        "purpose": entry.purpose,
        "pixels": entry.side,
        "features": entry.features,
        "megabytes": entry.megabytes,
        "recall_at_1": dict(entry.recall),
        "installed": entry.installed,
        "install": entry.install,
        **entry.card,
        "pictures_per_second": _speed(entry) if timed else None,
    }


def _line(row: dict[str, Any]) -> str:
    recall = ", ".join(f"{name} {value:.2f}" for name, value in row["recall_at_1"].items())
    speed = row["pictures_per_second"]
    facts = [
        row["purpose"],
        f"{row['pixels']} x {row['pixels']} pixels",
        f"{row['features']:,} features",
        f"{row['megabytes']} MB",
        row["licence"],
        f"recall@1 {recall}",
        *([f"{speed:.1f} pictures a second here"] if speed else []),
        "installed" if row["installed"] else row["install"],
    ]
    return f"{row['name']}: " + "; ".join(facts)


def _speed(entry: Pretrained) -> float:
    """Pictures a second of the network alone; what its weights are does not matter, so it need not be installed."""
    import time

    import torch

    from howsure.backbones import build_backbone, evaluating
    from howsure.cli.console import device

    where = device()
    network = build_backbone(entry.name, (3, entry.side, entry.side)).to(where)
    pixels = torch.rand(PICTURES, 3, entry.side, entry.side).to(where, memory_format=torch.channels_last)
    with evaluating(network):
        network(pixels[:1]).cpu()
        start = time.perf_counter()
        network(pixels).cpu()  # waits for a device that works on its own
        return PICTURES / (time.perf_counter() - start)
