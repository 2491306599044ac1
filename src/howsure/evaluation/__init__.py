"""Evaluate a model on data: every metric, with the name of its convention."""

from howsure.evaluation.metric import Metric
from howsure.evaluation.model import evaluate, evaluate_embeddings
from howsure.evaluation.scores import SCORES

__all__ = ["SCORES", "Metric", "evaluate", "evaluate_embeddings"]
