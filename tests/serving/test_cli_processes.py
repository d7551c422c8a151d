"""``torchrun ... shortfirst train``: two processes train one encoder and register one version."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from ranker.registry import Registry
from tests.training.encoder.conftest import invented, tiny_bert

CONFIG = """
tier = "encoder"

[encoder]
backbone = {backbone}
length = 24
epochs = 1
threads = 1
"""


@pytest.mark.slow
def test_two_processes_train_and_register_one_version(tmp_path):
    rows = invented(600)
    pd.DataFrame(
        {
            "prompt": [f"{row.prompt} {row.id}" for row in rows],
            "output_tokens": [row.output_tokens for row in rows],
            "finish_reason": [row.finish_reason.value for row in rows],
        }
    ).to_parquet(tmp_path / "rows.parquet")
    backbone = json.dumps(str(tiny_bert(tmp_path / "bert")))
    (tmp_path / "tiny.toml").write_text(CONFIG.format(backbone=backbone))
    command = (
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *("-m", "serving.cli", "train", "--config", str(tmp_path / "tiny.toml"), "--json"),
        *("--data", str(tmp_path / "rows.parquet"), "--served-model", "toy"),
    )
    home = tmp_path / "home"
    done = subprocess.run(
        command,
        env={**os.environ, "SHORTFIRST_HOME": str(home), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)  # of one process: the other says nothing
    assert found["version"] == "1"
    assert found["promoted"]
    registry = Registry(f"sqlite:///{home / 'mlflow.db'}", home / "artifacts")
    assert registry.resolve(found["name"], "champion") == "1"
    ranker = registry.load(f"models:/{found['name']}@champion")
    long, short = ranker.forecast(["essay of a small town", "date of a small town"])
    assert long.score > short.score
    assert not list((home / "cache" / "training").iterdir())  # the checkpoint went when it was done
