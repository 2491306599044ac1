"""Packages of others, in a folder of their own: without dependencies, so that they see the torch that we use.

The folder lies in the user's cache. It goes onto the path of the processes that measure, and of nothing else.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PACKAGES = (
    "laplace-torch==0.3",
    "backpack-for-pytorch==1.7.1",
    "curvlinops-for-pytorch==3.0.1",
    "asdfghjkl==0.1a4",
    # what these import, beside torch
    "einconv==0.1.0",
    "einops==0.8.2",
    "jaxtyping==0.3.11",
    "lightning-utilities==0.15.3",
    "linear-operator==0.6.1",
    "opt-einsum==3.4.0",
    "torchmetrics==1.9.0",
    "unfoldNd==0.2.3",
)


def packages() -> Path:
    """The folder with these packages; it is made if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "howsure-peers"
    key = hashlib.sha256(" ".join((*PACKAGES, sys.version)).encode()).hexdigest()[:12]
    packages = cache / key
    if packages.exists():
        return packages
    print(f"installing {PACKAGES[0]} and what it needs into {packages}", file=sys.stderr)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        fresh = Path(folder) / "packages"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(fresh)]
        subprocess.run([*pip, *PACKAGES], check=True, stdout=sys.stderr)
        fresh.rename(packages)  # an install that is interrupted must not look finished
    return packages


def measured(worker: Path, *arguments: str) -> Any:
    """What a script prints as JSON when it runs with these packages, on one thread."""
    path = [str(packages()), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path)), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(worker), *arguments]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)
