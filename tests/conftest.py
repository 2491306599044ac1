"""What all tests share: the same numbers on every machine, however busy it is."""

import torch
from hypothesis import settings

pytest_plugins = ["servers"]

torch.set_num_threads(1)  # sums in another order differ in the last bits
settings.register_profile("howsure", deadline=None, derandomize=True)
settings.load_profile("howsure")
