"""Training: one loop, and what it needs to stop, resume and judge itself."""

from howsure.train.events import Epoch, Step, Trained
from howsure.train.loop import train
from howsure.train.state import stored_recipe

__all__ = ["Epoch", "Step", "Trained", "stored_recipe", "train"]
