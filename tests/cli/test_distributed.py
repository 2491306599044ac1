"""Two processes of torchrun encode what one process encodes."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from howsure.index import LocalIndex


@pytest.mark.slow
def test_two_processes_make_the_gallery_of_one(run, model, tmp_path):
    alone = run("index", "digits:all", "-m", model, "-o", tmp_path / "alone", "--json").json
    assert alone["items"] > 1024  # more than one batch
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "howsure"]
    command = [*torchrun, "index", "digits:all", "-m", str(model), "-o", str(tmp_path / "shared"), "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["added"] == alone["items"]
    with LocalIndex.open(tmp_path / "alone") as one, LocalIndex.open(tmp_path / "shared") as two:
        (ids, embedding), (others, shared) = one.embedding(), two.embedding()
        assert ids == others
        assert one.items(ids) == two.items(ids)
        for name, array in embedding.arrays().items():
            np.testing.assert_array_equal(shared.arrays()[name], array)
