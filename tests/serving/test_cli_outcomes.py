"""train --from-outcomes and promote --outcomes as a user, or the retrain trigger, meets them."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("mlflow")

from typer.testing import CliRunner

from drift.outcomes import OutcomeStore
from drift.prompts import Prompt, PromptStore, RetentionConfig
from ranker.registry import Registry
from ranker.types import FinishReason, Outcome
from serving.cli import app, console
from serving.cli.optional_value import completed
from serving.paths import Home

NAME = "length-ranker-toy"
START = 1_700_000_000.0
SETTINGS = "[lexical.trees]\nrounds = 30\n[calibration]\nknots = 9\n"
FILLER = ("of", "the", "river", "winter", "town", "trade", "north", "glass")


def traffic(home: Path, first: int, rows: int, *, essays_are_long: bool = True) -> None:
    """One request a second from ``first`` on, of two tenants; a word tells how long the answer is,
    and which word means long can turn over."""
    rng = np.random.default_rng(first)
    outcomes, prompts = [], []
    for i in range(first, first + rows):
        word = ("essay", "date")[rng.integers(2)]
        long = (word == "essay") == essays_are_long
        tokens = int(rng.lognormal(np.log(400 if long else 20), 0.5)) + 1
        reason = FinishReason.LENGTH if tokens > 900 else FinishReason.STOP
        text = f"{word} {' '.join(rng.choice(FILLER, 4))} {i}"
        at = START + i
        tenant = ("acme", "big corp")[i % 2]
        outcomes.append(
            Outcome(f"r{i}", "toy", min(tokens, 900), reason, at, at + 2.0, 9, tenant=tenant)
        )
        prompts.append(Prompt(f"r{i}", "toy", text, at, tenant))
    with closing(OutcomeStore(home / "outcomes.db")) as store:
        store.put(outcomes)
    with closing(PromptStore(home / "prompts.db", RetentionConfig(30.0))) as store:
        store.put(prompts, START + first + rows)


@pytest.fixture
def user(tmp_path):
    return at(tmp_path)


def at(tmp_path):
    folder = tmp_path / "chez moi é"
    home = folder / "home"
    home.mkdir(parents=True)
    environ = {"SHORTFIRST_HOME": str(home), "SHORTFIRST_TRACKING_URI": ""}
    config = folder / "quick.toml"
    config.write_text(SETTINGS)
    runner = CliRunner()

    def shortfirst(*arguments: str, status: int = 0):
        done = runner.invoke(app, list(map(str, arguments)), env=environ)
        explained = console.explain(done.exception) if done.exception else None
        got = explained.status if explained else done.exit_code
        assert got == status, (done.output, done.exception)
        return SimpleNamespace(
            json=json.loads(done.stdout) if "--json" in arguments and done.stdout else None,
            out=done.stdout,
            said=done.stderr + (explained.message if explained else ""),
        )

    where = Home(home)
    return SimpleNamespace(
        run=shortfirst,
        home=home,
        config=("--config", config),
        registry=lambda: Registry(where.mlflow_uri, where.artifacts),
    )


def table(path: Path) -> Path:
    """What was known before there was traffic: essays are long."""
    path.write_text("\n".join(
        json.dumps({"prompt": f"{'essay' if i % 2 else 'date'} of {FILLER[i % 8]} {i} before",
                    "output_tokens": 20 + i % 7 + 300 * (i % 2), "model": "toy", "id": str(i),
                    "split": ("train", "train", "validation", "test")[i // 2 % 4]})
        for i in range(320)
    ))  # fmt: skip
    return path


@pytest.fixture(scope="module")
def shifted(tmp_path_factory):
    """Version 1 serves; then the words turned over, and version 2 was trained on what came."""
    user = at(tmp_path_factory.mktemp("shift"))
    user.log = table(user.home / "log.jsonl")
    user.run("train", "--data", user.log, *user.config)
    traffic(user.home, 0, 500)
    traffic(user.home, 500, 700, essays_are_long=False)
    user.store = user.home / "outcomes.db"
    user.made = user.run(
        "train", "--from-outcomes", user.store, "--served-model", "toy", "--name", NAME,
        "--challenger", "--json", "--half-life", "150", "--held-out", "160",
        "--reason", "drift: degraded", *user.config,
    ).json  # fmt: skip
    return user


def test_recent_traffic_makes_a_challenger_that_says_where_it_is_from(shifted):
    made, registry = shifted.made, shifted.registry()
    assert (made["version"], made["promoted"], made["challenger"]) == ("2", False, True)
    assert made["test"][0]["tau_b"] > 0.4
    assert registry.resolve(NAME, "challenger") == "2"
    tags = registry.run_tags(NAME, "2")
    assert tags["reason"] == "drift: degraded"
    assert tags["by"]
    lineage = made["lineage"]
    assert lineage == {
        "store": str(shifted.store), "prompts": str(shifted.home / "prompts.db"),
        "served_model": "toy", "rows": 1040, "trained_from": START,
        "trained_until": lineage["trained_until"],
        "calibrated_until": lineage["calibrated_until"], "seen_until": START + 1199.0,
        "half_life": 150.0,
    }  # fmt: skip
    assert tags["outcomes.trained_until"] == str(lineage["trained_until"]) == f"{START + 1039.0}"
    assert lineage["calibrated_until"] == START + 1119.0
    # What the champion was trained with is remembered for the next in line.
    assert tags["former.data"] == str(shifted.log)
    assert tags["former.served_model"] == "toy"


def test_the_gate_lets_it_serve_and_the_old_one_not_again(shifted):
    passed = shifted.run("promote", NAME, "2", "--outcomes", shifted.store, "--json").json
    assert (passed["promoted"], passed["version"], passed["previous"]) == (True, "2", "1")
    checks = {c["name"]: c for c in passed["verdict"]["checks"]}
    assert checks["tau-b"]["champion"] < 0.0 < 0.4 < checks["tau-b"]["challenger"]
    assert checks["tau-b"]["rows"] == 160
    assert {"SJF efficiency", "coverage of p50", "coverage of p90"} <= set(checks)
    assert "recent outcomes" in passed["gate"]

    refused = shifted.run("promote", NAME, "1", "--outcomes", status=1)
    assert "orders worse by" in refused.out
    assert "recent outcomes" in refused.out
    assert "--force promotes it anyway" in refused.said
    assert shifted.registry().resolve(NAME, "champion") == "2"

    assert shifted.run("rollback", NAME, "--json").json["version"] == "1"
    # Without --outcomes there is nothing to compare on, and the error says what to do.
    assert "--outcomes" in shifted.run("promote", NAME, "2", status=2).said
    alone = ("promote", NAME, "2", "--prompts", shifted.log)
    assert "give that too" in shifted.run(*alone, status=2).said


def test_former_data_that_is_gone_is_done_without(shifted):
    shifted.log.rename(shifted.log.with_name("away.jsonl"))
    folder = shifted.home / "cache" / "training"
    at_work, left = (folder / f"{NAME}-outcomes-{pid}-x" for pid in (1, 2))
    for one in (at_work, left):
        one.mkdir(parents=True)
        (one / "checkpoint").touch()
    os.utime(left, (0.0, 0.0))
    done = shifted.run("train", "--from-outcomes", "--no-promote", *shifted.config)
    assert "Without the data that the champion was trained with" in done.said
    assert "former.data" in shifted.registry().run_tags(NAME, "3")
    # Another run's checkpoints are its own; what a killed one left long ago goes, as ours do.
    assert (at_work / "checkpoint").exists()
    assert [one.name for one in folder.iterdir()] == [at_work.name]


def test_what_is_missing_is_said_before_anything_is_trained(user):
    assert "nothing was reported yet" in user.run("train", "--from-outcomes", status=2).said
    traffic(user.home, 0, 60)
    few = user.run("train", "--from-outcomes", status=2).said
    assert "60 outcomes of toy, of which 60 have a prompt" in few
    assert "at least 300" in few
    os.remove(user.home / "prompts.db")
    off = user.run("train", "--from-outcomes", user.home / "outcomes.db", status=2).said
    assert "serve --retain-prompts DAYS" in off
    assert user.registry().versions(NAME) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from-outcomes", "--data", "log.jsonl", "--pooled"), "--data, --pooled: says nothing"),
        (("--from-outcomes", "--half-life", "0"), ""),
        (("--challenger",), "--challenger: says nothing without --from-outcomes"),
    ],
)
def test_options_that_say_nothing_are_refused(user, options, message):
    assert message in user.run("train", *options, status=2).said


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["--x"], ["--x="]),
        (["--x", "a"], ["--x", "a"]),
        (["--x", "--y"], ["--x=", "--y"]),
        (["n", "--x"], ["n", "--x="]),
        (["--x=a", "b"], ["--x=a", "b"]),
        (["--y", "--", "--x"], ["--y", "--", "--x"]),
    ],
)
def test_an_option_may_stand_alone(given, read):
    assert completed(given, {"--x"}) == read
