"""``shortfirst bench sim`` as a user runs it."""

import json
import random

import pytest
from typer.testing import CliRunner

from serving.cli.bench import app


@pytest.fixture
def lengths(tmp_path):
    rng = random.Random(1)
    file = tmp_path / "longueurs été.csv"  # a space and an accent
    rows = [f"{rng.randint(5, 60)},{int(rng.lognormvariate(4, 1)) + 1}\n" for _ in range(200)]
    file.write_text("prompt_tokens,output_tokens\n" + "".join(rows))
    return file


def run(*arguments):
    return CliRunner().invoke(app, ["sim", *map(str, arguments)])


def test_json_holds_the_numbers_and_what_they_rest_on(lengths):
    result = run(
        "--lengths", lengths, "--seeds", 2, "--requests", 60, "--slots", 4, "--json",
        "--arrivals", "burst", "--policies", "boost-safe,sjf",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [row["policy"] for row in report["policies"]] == ["fcfs", "boost-safe", "sjf"]
    assert report["policies"][0]["mean_e2el"] == {"median": 1.0, "p10": 1.0, "p90": 1.0}
    assert report["policies"][2]["mean_e2el"]["median"] < 0.95
    assert report["scenario"]["requests"] == 60
    assert report["cost_seconds"]["decode"] == pytest.approx(0.00204)


def test_table_names_each_policy(lengths):
    result = run("--lengths", lengths, "--seeds", 1, "--requests", 40)
    assert result.exit_code == 0, result.output
    for name in ("fcfs", "boost-safe", "boost-fast", "ranked", "sjf"):
        assert name in result.stdout


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--arrivals", "tsunami", "--arrivals"),
        ("--policies", "boost-fast,lifo", "lifo"),
        ("--seeds", "0", "--seeds"),
        ("--tau", "2", "tau"),
        ("--slots", "0", "max_num_seqs"),
    ],
)
def test_mistakes_are_named(lengths, option, value, message):
    result = run("--lengths", lengths, option, value)
    assert result.exit_code != 0
    assert message in str(result.exception)


def test_a_trace_with_tenants_and_options_of_policies(tmp_path):
    rng = random.Random(2)
    rows = [f"{i * 0.5},{rng.randint(5, 60)},{rng.randint(1, 120)},t{i % 3}\n" for i in range(120)]
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens,tenant\n" + "".join(rows))
    result = run(
        "--trace", trace, "--seeds", 1, "--slots", 4,
        "--policies", "ltr:starvation=50,period=5,tie", "--forecasts", "flat", "--fairness",
        "--slo-ttft", 5, "--json", "--jobs", 1,
        "--plot", tmp_path / "page.html",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    names = [row["policy"] for row in report["policies"]]
    assert names == ["fcfs", "ltr:starvation=50,period=5", "tie"]
    assert report["scenario"]["arrivals"] == "trace"
    assert report["scenario"]["requests"] == 120
    measures = report["policies"][0]["measures"]
    assert measures["p99_ttft"]["median"] >= measures["median_ttft"]["median"] > 0.0
    assert 0.0 < measures["attainment"]["median"] <= 1.0
    assert (tmp_path / "page.html").stat().st_size > 1_000_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--arrivals", "trace"), "--arrivals trace needs --trace"),
        (("--forecasts", "gut"), "--forecasts"),
        (("--admission", "maybe"), "--admission"),
        (("--profile", "abacus"), "--profile"),
        (("--trace", "nowhere.csv"), "exclude one another"),
        (("--policies", "ltr:patience=3"), "--policies"),
        (("--burstiness", "0", "--arrivals", "gamma"), "burstiness"),
    ],
)
def test_mistakes_of_the_newer_options_are_named(lengths, options, message):
    result = run("--lengths", lengths, *options)
    assert result.exit_code != 0
    assert message in str(result.exception)
