"""``shortfirst bench frontier`` and ``bench traces`` as a user runs them."""

import json
import random
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from engine.bench.frontier import FrontierRow
from engine.bench.real_traces import TracesRow
from engine.comparison import Spread
from serving.cli.bench import app, frontier, traces


@pytest.fixture
def lengths(tmp_path):
    rng = random.Random(1)
    file = tmp_path / "longueurs été.csv"
    rows = [f"{rng.randint(5, 60)},{int(rng.lognormvariate(4, 1)) + 1}\n" for _ in range(200)]
    file.write_text("prompt_tokens,output_tokens\n" + "".join(rows))
    return file


@pytest.fixture
def trace(tmp_path):
    rng = random.Random(2)
    file = tmp_path / "trace.csv"
    lines = [
        f"{name},{i * 0.5 + rng.random()},{rng.randint(5, 60)},{rng.randint(1, 200)}\n"
        for name in ("one", "two")
        for i in range(120)
    ]
    file.write_text("trace,arrival_s,input_tokens,output_tokens\n" + "".join(lines))
    return file


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def bursts(lengths, *more):
    return run(
        "frontier", "--lengths", lengths, "--engines", "toy-32:4", "--cycles", 2, "--period", 20,
        "--seeds", 2, "--jobs", 1, "--policies", "sjf,boost-safe", *more,
    )  # fmt: skip


def test_frontier_prints_policies_and_says_what_was_met(lengths, tmp_path):
    page = tmp_path / "frontier.html"
    result = bursts(lengths, "--plot", page)
    assert result.exit_code == 0, result.output
    assert "sjf" in result.stdout
    assert "toy-32:4: boost-safe gains" in result.stdout
    assert "gain per token" in page.read_text(encoding="utf-8")


def test_frontier_json_holds_the_numbers_and_what_they_rest_on(lengths):
    report = json.loads(bursts(lengths, "--json").stdout)
    assert [row["policy"] for row in report["rows"]] == ["sjf", "boost-safe"]
    assert report["rows"][0]["gain"]["median"] > 1.0
    assert report["engines"][0]["max_num_seqs"] == 4
    assert report["config"]["swing"] == 1.0


def test_traces_marks_memory_and_judges_the_rest(trace, tmp_path):
    page = tmp_path / "traces.html"
    result = run(
        "traces", trace, "--names", "one", "--engines", "toy-32:4", "--seeds", 1, "--jobs", 1,
        "--loads", "1.0", "--requests", 100, "--plot", page,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    for said in ("noise", "stale", "flat"):
        assert f"boost-safe, {said} forecasts, 1 of 1 cells" in result.stdout
    assert "met: boost-safe, flat forecasts" in result.stdout
    assert page.stat().st_size > 1000


def test_traces_takes_all_of_a_file_and_names_what_it_does_not_know(trace):
    result = run(
        "traces", trace, "--engines", "toy-32:4", "--seeds", 1, "--jobs", 1, "--loads", "1",
        "--requests", 100, "--forecasts", "flat", "--json",
    )  # fmt: skip
    assert [row["trace"] for row in json.loads(result.stdout)["rows"]] == ["one", "two"]
    for option, value, message in (
        ("--forecasts", "psychic", "psychic"),
        ("--engines", "toy-32", "NAME:SLOTS"),
        ("--engines", "abacus:4", "abacus"),
        ("--names", "three", "three"),
        ("--loads", "full", "--loads"),
    ):
        wrong = run("traces", trace, "--seeds", 1, option, value)
        assert wrong.exit_code != 0
        assert message in str(wrong.exception)


def spread(value):
    return Spread(value, value, value)


def row(policy, gain, tail):
    rest = [spread(1.0)] * 8
    return replace(
        FrontierRow("engine", 32, policy, spread(100), *rest, max_ttft=spread(1.0)),
        gain=spread(gain),
        p99_e2el=spread(tail),
    )


def test_a_verdict_counts_the_best_within_the_limit_of_the_tail():
    rows = [row("boost-fast", 5.0, 1.08), row("boost-balanced", 3.5, 1.02), row("sjf", 9.0, 1.0)]
    fast, gentle = frontier.verdicts(rows, ranker=False)
    assert fast.startswith("met: engine:32: boost-fast gains 5.00x")
    assert gentle.startswith("MISSED: engine:32: boost-balanced gains 3.50x")
    (own,) = frontier.verdicts(rows, ranker=True)
    assert own.startswith("met: engine:32: boost-fast")


def cell(forecasts, mean, tail, bound=False):
    made = TracesRow("t", "e", 1.0, forecasts, "boost-safe", bound, *[spread(1.0)] * 6)
    return replace(made, mean_e2el=spread(mean), p99_e2el=spread(tail))


def test_cells_that_memory_decides_are_judged_by_nobody():
    rows = [cell("noise", 0.95, 1.01), cell("noise", 0.96, 1.02), cell("noise", 0.5, 1.9, True)]
    (said,) = traces.verdicts(rows)
    assert said.startswith("met: boost-safe, noise forecasts, 2 of 3 cells")
    (said,) = traces.verdicts([*rows, cell("noise", 0.9, 1.06)])
    assert said.startswith("MISSED")
    (said,) = traces.verdicts([cell("stale", 1.0, 1.051)])
    assert said.startswith("MISSED: boost-safe, stale")
    (said,) = traces.verdicts([cell("flat", 1.0, 1.001)])
    assert said.startswith("MISSED: boost-safe, flat")
