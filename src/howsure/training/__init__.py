"""Training: one loop, and what it needs to stop, resume and judge itself."""

from howsure.training.events import Epoch, Event, Preparation, Step, Trained
from howsure.training.loop import run_training, train
from howsure.training.methods import METHODS, method_named
from howsure.training.state import stored_recipe

__all__ = [
    "METHODS",
    "Epoch",
    "Event",
    "Preparation",
    "Step",
    "Trained",
    "method_named",
    "run_training",
    "stored_recipe",
    "train",
]
