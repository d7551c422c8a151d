"""What an operator chose is checked before a model is loaded for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.core.config import AdmissionMode, PreemptionMode
from engine.core.costs import CostModel
from engine.core.lanes import LaneConfig
from serving.cli import app
from serving.engine_setup import EngineSetup
from serving.lanes_file import LaneSpec

COST = CostModel(0.03, 0.002, 0.001, swap=1e-5)


def lane(name: str = "default", policy: str = "fcfs") -> LaneSpec:
    return LaneSpec(LaneConfig(name), policy)


def test_what_was_chosen_reaches_the_scheduler() -> None:
    setup = EngineSetup(
        "m", swap_gib=1.0, cost=COST, admission=AdmissionMode.PREDICTED,
        preemption=PreemptionMode.SWAP, prefix_cache=False, max_num_seqs=7,
    )  # fmt: skip
    config = setup.scheduler(100, 20)
    assert (config.num_blocks, config.host_blocks, config.max_num_seqs) == (100, 20, 7)
    assert config.admission.mode is AdmissionMode.PREDICTED
    assert config.preemption.mode is PreemptionMode.SWAP
    assert not config.prefix_cache
    assert config.cost == COST


def test_lanes_have_policies_of_their_own() -> None:
    setup = EngineSetup("m", lanes=(lane("a", "boost"), lane("b", "boost"), lane("c", "ltr")))
    built = setup.build_lanes(COST)
    assert [each.policy.name for each in built] == ["boost", "boost", "ltr"]
    assert built[0].policy is not built[1].policy


@pytest.mark.parametrize(
    ("lanes", "swap_gib", "needed"),
    [
        ((lane(),), 0.0, False),
        ((lane("a"), lane("b")), 0.0, False),
        ((lane(),), 0.5, True),
        ((lane("a"), lane("b", "srpt_predicted")), 0.0, True),
    ],
)
def test_costs_are_measured_where_something_is_decided_by_them(
    lanes: tuple[LaneSpec, ...], swap_gib: float, needed: bool
) -> None:
    assert EngineSetup("m", lanes=lanes, swap_gib=swap_gib).needs_cost is needed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": ""}, "model"),
        ({"lanes": ()}, "at least one lane"),
        ({"threads": -1}, "threads"),
        ({"max_model_len": -1}, "max_model_len"),
        ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization"),
        ({"model": "smollm2-135m-instruct", "revision": "v1"}, "revision is for models of the hub"),
        ({"kv_gib": float("nan")}, "kv_gib"),
        ({"swap_gib": -1.0}, "swap_gib"),
        ({"preemption": PreemptionMode.SWAP}, "swap_gib above 0"),
        ({"swap_gib": 1.0, "cost": CostModel(0.03, 0.002, 0.001)}, "what a swap costs"),
        ({"lanes": (lane(policy="sjf"),)}, "policy sjf needs true lengths"),
        ({"lanes": (lane("a"), lane("b", "srpt"))}, "lane 'b': policy srpt needs true lengths"),
        ({"lanes": (lane(policy="edf"),)}, "policy must be one of"),
        ({"lanes": (lane(policy="ltr:speed=3"),)}, "no option 'speed'"),
        ({"max_num_batched_tokens": 8}, "max_num_batched_tokens"),
    ],
)
def test_what_cannot_serve_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        EngineSetup(**{"model": "m", **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--admission", "none"], "--admission must be one of off, static, predicted"),
        (["--preemption", "drop"], "--preemption must be one of auto, recompute, swap"),
        (["--preemption", "swap"], "swap_gib"),
        (["--boost", "slow"], "--boost must be one of safe"),
        (["--policy", "sjf"], "true lengths"),
        (["--max-wait", "-1"], "--max-wait"),
        (["--tenant-budget", "acme"], "NAME=RATE:BURST"),
        (["--cost", "1,2"], "--cost"),
        (["--speculate", "tea-leaves"], "--speculate must be one of off, ngram, model"),
        (["--speculate", "model"], "needs draft_model"),
        (["--speculate", "ngram", "--draft-model", "x"], "draft_model"),
        (["--max-drafts", "33"], "max_drafts must lie in"),
    ],
)
def test_the_command_names_the_option(options: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["engine", "--model", "nowhere", *options])
    assert result.exit_code != 0
    assert said in str(result.exception)


def test_a_lanes_file_that_is_wrong_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lanes.toml"
    path.write_text("[[lane]]\nname = 'a'\nshare = 0\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["engine", "--model", "nowhere", "--lanes", str(path)])
    assert "lanes.toml: lane 'a': share" in str(result.exception)
