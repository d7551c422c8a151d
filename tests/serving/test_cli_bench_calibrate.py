"""``shortfirst bench calibrate``: what it says, and what it refuses before it loads a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.bench.calibrate import Calibration
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.costs import Fit
from engine.engine_profiles import load
from engine.metrics import Timing, summarise
from serving.cli import app
from serving.cli.bench import calibrate


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--segments", "4"], "segments must be an odd number"),
        (["--utilisation", "0"], "utilisation"),
        (["--save", "profile.yaml"], "--save must end in"),
        (["--clock", "sun"], "--clock must be wall or processor"),
        (["--policy", "srpt"], "true lengths"),
        (["--slots", "0"], "max_num_seqs"),
    ],
)
def test_refuses_before_a_model_is_loaded(options: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["bench", "calibrate", "--model", "nowhere", *options])
    assert result.exit_code != 0
    assert said in str(result.exception)


def found(error: float) -> Calibration:
    real = [Timing(str(i), 0.0, 1.0, 2.0 + i, 5, 5) for i in range(4)]
    simulated = [Timing(str(i), 0.0, 1.0, (2.0 + i) * (1.0 + error), 5, 5) for i in range(4)]
    fit = Fit(CostModel(0.03, 0.002, 0.001, 1e-6), 812, 0.97, 0.0)
    return Calibration(fit, (0.98, 1.01, 1.02), 1.01, summarise(real), summarise(simulated))


@pytest.mark.parametrize(("error", "verdict"), [(0.05, "met"), (-0.09, "met"), (-0.2, "MISSED")])
def test_prints_both_sides_and_whether_the_promise_is_kept(
    error: float, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = SchedulerConfig(8, 512, 32, 100, cost=CostModel(0.1, 0.1, 0.1, swap=2e-5))
    profile = calibrate._profile("m", "float32 on cpu", found(error), config)
    calibrate._print(found(error), profile)
    out = capsys.readouterr().out
    assert f"{verdict}: mean E2EL {error:+.1%}, p99 E2EL {error:+.1%}" in out
    assert "E2EL, p99" in out
    assert "0.98 to 1.02" in out
    # The swap was timed by itself; the rest is what was fitted.
    assert profile.cost == CostModel(0.03, 0.002, 0.001, 1e-6, 2e-5)
    path = tmp_path / "profile.toml"
    profile.save(path)
    assert load(path) == profile
