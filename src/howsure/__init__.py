"""howsure: embeddings that tell you how sure they are.

Names are resolved on first use, so importing the package costs nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Draws": "embeddings",
    "Embedding": "embeddings",
    "Gaussian": "embeddings",
    "GaussianMixture": "embeddings",
    "NovelGaussian": "embeddings",
    "Point": "embeddings",
    "VonMisesFisher": "embeddings",
    "cat": "embeddings",
    "restore": "embeddings",
    "expected_similarity": "compare",
    "expected_squared_distance": "compare",
    "mutual_likelihood": "compare",
    "rms_distance": "compare",
    "Matcher": "match",
    "expected_match_probability": "match",
    "self_mismatch": "match",
    "match_probability": "match",
    "Recipe": "recipe",
    "read_recipe": "recipe",
    "recipe_for": "recipe",
    "InputSpec": "data",
    "Embedder": "embedder",
    "Encoded": "embedder",
    "Index": "index",
    "Matches": "index",
    "connect": "index",
    "Answer": "decide",
    "Finding": "decide",
    "Policy": "decide",
    "ask": "decide",
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
