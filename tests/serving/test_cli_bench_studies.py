"""The studies of ``shortfirst bench`` as a user runs them, on a small engine."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from serving.cli.bench import app
from tests.engine.bench.world import TINY


@pytest.fixture
def world(tmp_path):
    """Options that make every command small: an engine, lengths, one seed, no other process."""
    profile = tmp_path / "tiny engine.toml"
    TINY.save(profile)
    rng = np.random.default_rng(1)
    rows = zip(rng.integers(5, 40, 200), rng.integers(5, 90, 200), strict=True)
    lengths = tmp_path / "longueurs été.csv"
    lengths.write_text(
        "prompt_tokens,output_tokens\n" + "".join(f"{prompt},{output}\n" for prompt, output in rows)
    )
    return ["--profile", str(profile), "--lengths", str(lengths)]


ONCE = ["--seeds", "1", "--jobs", "1"]
MEMORY = ["memory", *ONCE, "--requests", "60", "--limits", "0.5", "--levels", "0.9",
          "--bandwidths", "1"]  # fmt: skip
FAIRNESS = ["fairness", *ONCE, "--requests", "60", "--tenants", "2", "--policies", "fcfs",
            "--chat-requests", "40"]  # fmt: skip
PAPER = ["paper", *ONCE, "--burst", "40", "--rates", "1,20", "--seconds", "2", "--samples", "60",
         "--first", "10", "--loads", "0.5,2", "--load-requests", "40"]  # fmt: skip
ROUTER = ["router", *ONCE, "--requests", "60", "--replicas", "2"]
SPEED = ["speed", "--running", "4", "--waiting", "10,20", "--steps", "20", "--repeats", "2",
         "--requests", "100"]  # fmt: skip


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (MEMORY, {"config", "admission", "preemption"}),
        (FAIRNESS, {"tenants", "lanes"}),
        (PAPER, {"config", "found", "published", "differences"}),
        (ROUTER, {"config", "rows"}),
        (SPEED, {"config", "schedule_milliseconds", "simulations"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_json_says_what_was_found_and_on_what(world, command, keys):
    result = run(*command, *world, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert keys | {"profile", "lengths"} <= set(found)
    assert found["profile"]["name"] == "tiny"
    assert found["lengths"] == "longueurs été.csv"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (MEMORY, ["limit 4", "predicted 0.9", "recompute", "the best limit's goodput"]),
        (FAIRNESS, ["counters and budgets", "Jain", "precedence", "chat within SLO"]),
        (PAPER, ["class-10", "2.05x 8B ShareGPT", "oracle", "Per-token latency is E2EL over"]),
        (ROUTER, ["prefix_affine", "Conversations", "Single requests"]),
    ],
    ids=lambda value: value[0] if value[0].islower() else "",
)
def test_tables_and_a_page_of_figures(world, command, words, tmp_path):
    page = tmp_path / "figures.html"
    result = run(*command, *world, "--plot", page)
    assert result.exit_code == 0, result.output
    for word in words:
        assert word in result.stdout
    assert "plotly.js v" in page.read_text(encoding="utf-8")


def test_speed_says_whether_the_targets_were_met(world):
    result = run(*SPEED, *world)
    assert result.exit_code == 0, result.output
    assert "p99 with 10 waiting is" in result.stdout
    assert "Azure" in result.stdout
    assert "met: 100 requests took" in result.stdout


@pytest.mark.parametrize(
    ("command", "option", "value", "message"),
    [
        (MEMORY, "--limits", "half", "--limits"),
        (MEMORY, "--profile", "gpu", "--profile"),
        (MEMORY, "--seeds", "0", "--seeds"),
        (MEMORY, "--jobs", "-1", "--jobs"),
        (FAIRNESS, "--tenants", "1", "tenants"),
        (FAIRNESS, "--policies", "lifo", "lifo"),
        (PAPER, "--rates", "2,1", "rates"),
        (ROUTER, "--routers", "dice", "dice"),
        (SPEED, "--waiting", "0", "waiting"),
    ],
)
def test_mistakes_are_named(world, command, option, value, message):
    result = run(*command, *world, option, value)
    assert result.exit_code != 0
    assert message in str(result.exception)
