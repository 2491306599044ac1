"""howsure verify: are these two pictures the same thing?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli.console import Json, print_json
from howsure.cli.model import load_model
from howsure.errors import ModelError


def verify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.")],
    a: Annotated[Path, typer.Argument(metavar="A", help="A picture.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another picture.")],
    as_json: Json = False,
) -> None:
    """Say whether two pictures show the same thing, and how probable that is when half of all pairs do.

    The answer is match, unknown (not the same) or not_sure: sure means that the calibrated probability of being wrong
    is at most the error rate that the model was calibrated for.
    """
    from howsure.decide import Policy, verify_pair
    from howsure.match import match_probability

    embedder = load_model(model)
    policy = Policy.load(model, model=embedder.fingerprint)
    matcher = policy.matcher if policy else embedder.matcher
    if matcher is None:
        raise ModelError(f"{model} cannot tell probabilities yet", fix="run howsure calibrate")
    pair = embedder.encode([a, b])
    seen = policy.ranked(pair) if policy else pair
    probability = float(match_probability(matcher.at(0.5), seen[0], seen[1], paired=True))
    answer = verify_pair(probability, policy)
    if as_json:
        result = {"probability": probability, "answer": answer.kind, "reason": answer.reason}
        print_json(result | {"uncertainty": pair.uncertainty.tolist()})
    else:
        words = {"match": "the same", "unknown": "not the same", "not_sure": "not sure"}
        print(f"{words[answer.kind]}: P(same) = {probability:.4f}")
