"""howsure: embeddings that tell you how sure they are.

Names are resolved on first use, so importing the package costs nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Gallery": "gallery",
    "Embedder": "embedder",
    "Index": "index",
    "Matches": "index",
    "connect": "index",
    "InputSpec": "data",
    "Recipe": "recipe",
    "recipe_for": "recipe",
    "train": "training",
    "load": "embedder",
    "laplace": "posteriors",
    "ensemble": "posteriors",
    "dropout": "posteriors",
    "evaluate": "evaluation",
    "calibrate": "decide",
    "ask": "decide",
    "Answer": "decide",
    "Finding": "decide",
    "Policy": "decide",
    "Embedding": "embeddings",
    "Point": "embeddings",
    "Gaussian": "embeddings",
    "GaussianMixture": "embeddings",
    "NovelGaussian": "embeddings",
    "VonMisesFisher": "embeddings",
    "Draws": "embeddings",
    "cat": "embeddings",
    "restore": "embeddings",
    "expected_similarity": "compare",
    "expected_squared_distance": "compare",
    "mutual_likelihood": "compare",
    "rms_distance": "compare",
    "Matcher": "match",
    "match_probability": "match",
    "expected_match_probability": "match",
    "self_mismatch": "match",
    "HowsureError": "errors",
    "Client": "web.client",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'howsure' has no attribute {name!r}")
    return getattr(import_module(f"howsure.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
