"""Training: one loop, and what it needs to stop, resume and judge itself."""

from howsure.train.events import Epoch, Step, Trained
from howsure.train.loop import train
from howsure.train.methods import METHODS, method_named
from howsure.train.post_hoc import fit_laplace
from howsure.train.state import stored_recipe

__all__ = ["METHODS", "Epoch", "Step", "Trained", "fit_laplace", "method_named", "stored_recipe", "train"]
