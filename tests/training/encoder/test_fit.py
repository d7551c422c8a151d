"""A tiny encoder learns, stops, resumes after a kill, and is shared between processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ranker.encoder.model_number import model_number
from ranker.encoder.network import LengthNetwork
from tests.training.encoder.conftest import invented, quick_config
from training.encoder import checkpoint
from training.encoder.config import LossWeights
from training.encoder.fit import FittedEncoder, fit_encoder
from training.encoder.watch import Interrupted

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def fitted(rows, quick, backbone, tmp_path_factory) -> FittedEncoder:
    """A run that nothing interrupts."""
    workdir = tmp_path_factory.mktemp("whole run")
    helpers = invented(60, "other", 1)
    return fit_encoder(rows, quick, auxiliary=helpers, backbone=backbone, workdir=workdir)


def weights(network: LengthNetwork) -> dict[str, bytes]:
    return {name: w.numpy().tobytes() for name, w in network.state_dict().items()}


def python(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A process of its own, with one thread and the repository to import from."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=240)


def test_it_learns_which_word_asks_for_much(fitted):
    assert fitted.validation_tau == max(tau for _, tau in fitted.taus) > 0.35
    assert len(fitted.curve) == fitted.taus[-1][0]
    first, last = sum(fitted.curve[:5]), sum(fitted.curve[-5:])
    assert last < 0.9 * first


def test_the_distribution_follows_the_prompt_and_does_not_cross(fitted):
    ids = [fitted.text.ids([prompt])[0] for prompt in ("essay of a", "date of a")]
    batch = torch.tensor(ids)
    with torch.no_grad():
        scores, logs, pooled = fitted.network(batch, torch.ones_like(batch), torch.zeros(2).long())
    assert scores[0] > scores[1]
    assert (logs.diff(dim=1) > 0).all()
    assert logs[0, 5] > logs[1, 5] + 0.5
    assert pooled.shape == (2, fitted.network.width)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.training.encoder.conftest import invented, quick_config
from training.encoder.fit import fit_encoder

def watch(step):
    if step.step == 13:  # three steps after the second checkpoint, within the second epoch
        os.kill(os.getpid(), signal.SIGKILL)

fit_encoder(
    invented(150), quick_config(), auxiliary=invented(60, "other", 1), backbone=Path(sys.argv[1]),
    workdir=Path(sys.argv[2]), watch=watch,
)
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bits(fitted, rows, quick, backbone, tmp_path):
    killed = python("-c", KILLED, backbone, tmp_path)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    steps = []
    resumed = fit_encoder(
        rows,
        quick,
        auxiliary=invented(60, "other", 1),
        backbone=backbone,
        workdir=tmp_path,
        watch=lambda step: steps.append(step.step),
    )
    assert steps[0] == 11
    assert resumed.curve == fitted.curve
    assert resumed.taus == fitted.taus
    assert weights(resumed.network) == weights(fitted.network)


SHARED = """
import json, sys
from pathlib import Path
from accelerate import PartialState
from tests.training.encoder.test_fit import shared

found = shared(Path(sys.argv[1]))
state = PartialState()
name = f"{state.process_index} of {state.num_processes}.json"
Path(sys.argv[2], name).write_text(json.dumps(found))
"""


def shared(backbone: Path) -> list[object]:
    """Losses, taus and what the network says in the end, of a run that processes may share."""
    # 100 rows in batches of 15: neither the batch nor the last one divides by two.
    config = replace(quick_config(), dropout=0.0, batch=15, epochs=2)
    fitted = fit_encoder(invented(150), config, backbone=backbone)
    ids = torch.tensor(fitted.text.ids(["essay of a", "date of a", "in the town"]))
    with torch.no_grad():
        told = fitted.network(ids, torch.ones_like(ids), torch.zeros(3, dtype=torch.long))
    return [list(fitted.curve), list(fitted.taus), *(part.tolist() for part in told)]


@pytest.mark.slow
def test_two_processes_do_what_one_does(backbone, tmp_path):
    """To rounding: losses, tau and what the network says in the end, in either process. Not the
    weights: those that no loss feels, such as the constant of a score, follow the rounding.

    Two interpreters, not forks of one, which would hash alike."""
    script = tmp_path / "shared.py"
    script.write_text(SHARED)
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    done = python(*launch, script, backbone, tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"{i} of 2.json").read_text()) for i in range(2))
    assert first == second
    for alone, part in zip(shared(backbone), first, strict=True):
        np.testing.assert_allclose(part, alone, rtol=1e-3, atol=1e-3)


def test_ctrl_c_leaves_the_checkpoint_and_says_how_to_go_on(rows, quick, backbone, tmp_path):
    def watch(step):
        if step.step == 7:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=r"step 7 of 21; .* go on from step 5 "):
        fit_encoder(rows, quick, backbone=backbone, workdir=tmp_path, watch=watch)
    with pytest.raises(ValueError, match=r"encoder\.seed was 0, now 1"):
        fit_encoder(rows, replace(quick, seed=1), backbone=backbone, workdir=tmp_path)
    with pytest.raises(ValueError, match="training rows was"):
        fit_encoder(rows[:-1], quick, backbone=backbone, workdir=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.NAME]


def test_it_stops_when_validation_stops_improving(rows, quick, backbone):
    still = replace(quick, learning_rate=1e-30, head_learning_rate=1e-30, patience=2, epochs=9)
    fitted = fit_encoder(rows, still, backbone=backbone)
    assert len(fitted.taus) == 3
    assert len(fitted.curve) < 21


def test_served_models_are_told_apart_and_an_unknown_one_is_answered(quick, backbone):
    """One model answers everything at length, the other in few words."""
    both = invented(120, "brief") + [
        replace(e, model="wordy", output_tokens=10 * e.output_tokens) for e in invented(120)
    ]
    fitted = fit_encoder(both, replace(quick, epochs=4), backbone=backbone)
    network = fitted.network
    assert network.models == ("brief", "wordy")
    ids = torch.tensor(fitted.text.ids(["essay of a"])).expand(3, -1)
    names = ("brief", "new", "wordy")
    numbers = torch.tensor([model_number(name, network.models) for name in names])
    with torch.no_grad():
        scores, logs, _ = network(ids, torch.ones_like(ids), numbers)
    assert scores[0] < scores[1] < scores[2]
    assert logs[0, 5] < logs[2, 5]


@pytest.mark.parametrize("name", ["margin", "listnet", "listmle", "lambdaloss", "log_t"])
def test_every_loss_alone_teaches_the_order(name, rows, quick, backbone):
    head = "log_t" if name == "log_t" else "linear"
    alone = replace(quick, losses=LossWeights(**{name: 1.0}), score_head=head)
    fitted = fit_encoder(rows, alone, backbone=backbone)
    assert fitted.validation_tau > 0.2
    batch = torch.tensor(fitted.text.ids(["essay", "date"]))
    with torch.no_grad():
        _, logs, _ = fitted.network(batch, torch.ones_like(batch), torch.zeros(2).long())
    # No loss taught the distribution: it stays the marginal one.
    assert torch.equal(logs[0], logs[1])


def test_too_few_rows_and_too_long_texts_are_refused(rows, quick, backbone):
    with pytest.raises(ValueError, match=r"training and .* validation rows are too few"):
        fit_encoder(rows[:40], quick, backbone=backbone)
    with pytest.raises(ValueError, match=r"encoder\.length must be at most 32"):
        fit_encoder(rows, replace(quick, length=64), backbone=backbone)


def test_the_caller_keeps_its_chance_and_threads(rows, quick, backbone):
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        fit_encoder(rows, replace(quick, epochs=1), backbone=backbone)
        assert torch.equal(torch.rand(3), expected)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
