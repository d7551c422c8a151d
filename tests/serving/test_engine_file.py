"""One file with all of an engine's configuration: read, overruled, refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from serving.cli import app
from serving.cli.engine import engine
from serving.cli.engine_config import kinds
from serving.engine_file import EXAMPLE, parse_engine_file

KINDS = kinds(engine)


def check(path: Path, *options: str) -> Any:
    arguments = ["engine", "--config", str(path), "--check", "--json", *options]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def written(folder: Path, text: str) -> Path:
    path = folder / "engine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_example_is_resolved_and_the_command_line_goes_first(tmp_path: Path) -> None:
    path = written(tmp_path, EXAMPLE)
    said = ["--max-num-seqs", "3", "--tenant-budget", "acme=7:70", "--any-tenant"]
    resolved = check(path, *said)
    options, sources = resolved["options"], resolved["sources"]
    assert (options["model"], sources["model"]) == ("smollm2-135m-instruct", "file")
    assert (options["max_num_seqs"], sources["max_num_seqs"]) == (3, "command line")
    assert (options["fair_tenants"], sources["fair_tenants"]) == (False, "command line")
    assert (options["http_port"], sources["http_port"]) == (8000, "default")
    chat, batch = resolved["lanes"]
    assert (chat["name"], chat["share"], chat["slo"]) == ("chat", 3, {"ttft": 2})
    assert (chat["policy"], batch["policy"], batch["precedence"]) == ("boost", "fcfs", 1)
    assert resolved["tenants"] == {
        "acme": {"rate": 7, "burst": 70},
        "*": {"rate": 50, "burst": 2000},
    }


def test_the_table_names_each_option_with_where_it_came_from(tmp_path: Path) -> None:
    path = written(tmp_path, "grpc_port = 50053\nreport = false\n")
    result = CliRunner().invoke(app, ["engine", "--config", str(path), "--check"])
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.split("\n")]
    assert ["grpc_port", "50053", "file"] in lines
    assert ["report", "false", "file"] in lines
    assert ["http_port", "8000", "default"] in lines


def test_every_kind_of_option_can_be_in_a_file(tmp_path: Path) -> None:
    text = """
    swap_gib = 1                # a whole number where any number will do
    prefix_cache = false
    rank_deadline_ms = 12.5
    tenant_budget = ["acme=1:2"]
    ready_file = "ready.json"
    cost = "0.03,0.002,0.001,0,1e-5"
    """
    options = check(written(tmp_path, text))["options"]
    assert (options["swap_gib"], options["prefix_cache"]) == (1.0, False)
    assert (options["rank_deadline_ms"], options["ready_file"]) == (12.5, "ready.json")
    assert options["tenant_budget"] == ["acme=1:2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_num_sqs = 3", "no key 'max_num_sqs'; did you mean 'max_num_seqs'"),
        ("max-num-seqs = 3", "did you mean 'max_num_seqs'"),
        ("xyzzy = 3", "no key 'xyzzy'; there are model, "),
        ("config = 'other.toml'", "no key 'config'"),
        ("max_num_seqs = '3'", "max_num_seqs must be a whole number, got '3'"),
        ("max_num_seqs = true", "max_num_seqs must be a whole number, got True"),
        ("kv_gib = 'x'", "kv_gib must be a number"),
        ("report = 1", "report must be true or false"),
        ("tenant_budget = [1]", "tenant_budget must be a list of strings"),
        ("lanes = 'a.toml'\n[[lane]]\nname = 'a'", "both .*lane.* and lanes"),
        ("tenants = 3", "tenants must be a table"),
        ("tenants.acme = 3", "tenant 'acme' must look like"),
        ("[tenants]\nacme = {rate = 3}", "tenant 'acme' must have a burst"),
        ("[tenants]\nacme = {rate = 3, brst = 1}", "no key 'brst'; did you mean 'burst'"),
        ("[tenants]\nacme = {rate = 0, burst = 1}", "tenant 'acme': budget.rate"),
        ("a = ", "is not TOML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_engine_file(text, KINDS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("polcy = 'fcfs'", "engine.toml: the file has no key 'polcy'; did you mean 'policy'?"),
        ("[[lane]]\nname = 'a'\nshre = 2", "lane 'a' has no key 'shre'; did you mean 'share'?"),
        ("policy = 'sjf'", "true lengths"),
        ("lane = 3", "[[lane]]"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    result = CliRunner().invoke(app, ["engine", "--config", str(path), "--check"])
    assert result.exit_code != 0
    assert said in str(result.exception)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["engine", "--config", str(tmp_path / "none.toml")])
    assert isinstance(result.exception, FileNotFoundError)
    assert "none.toml" in str(result.exception)
