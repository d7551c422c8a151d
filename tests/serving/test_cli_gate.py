"""train, promote and rollback as a user meets them, on a table of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("mlflow")

from typer.testing import CliRunner

from ranker import artifact
from ranker.registry import Registry
from serving.cli import app, console
from serving.cli.training_data import Wanted
from serving.paths import Home
from training import pipeline
from training.encoder.watch import Interrupted
from training.gate import SEEN_FILE

NAME = "length-ranker-toy"
SETTINGS = "[lexical.trees]\nrounds = 30\n[calibration]\nknots = 9\n"


def table(path: Path, told: float, rows: int = 320) -> Path:
    """Prompts whose word tells how long the answer is, ``told`` of the time."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(rows):
        much = bool(rng.integers(2))
        word = ("essay", "date")[(rng.random() < told) != much]
        tokens = int(rng.lognormal(np.log(400 if much else 20), 0.5)) + 1
        split = ("train", "train", "validation", "test")[i % 4]
        lines.append(
            {"prompt": f"{word} of river {i}", "output_tokens": tokens, "model": "toy",
             "split": split, "id": str(i)}
        )  # fmt: skip
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """A home with version 1 that knows the words, serving, and a configuration."""
    folder = tmp_path_factory.mktemp("chez moi é")
    runner = CliRunner()
    environ = {"SHORTFIRST_HOME": str(folder / "home"), "SHORTFIRST_TRACKING_URI": ""}

    def shortfirst(*arguments: str, status: int = 0):
        done = runner.invoke(app, list(map(str, arguments)), env=environ)
        explained = console.explain(done.exception) if done.exception else None
        got = explained.status if explained else done.exit_code
        assert got == status, (done.output, done.exception)
        said = done.stderr + (explained.message if explained else "")
        return SimpleNamespace(
            json=json.loads(done.stdout) if "--json" in arguments else None,
            out=done.stdout,
            said=said,
        )

    config = folder / "quick.toml"
    config.write_text(SETTINGS)
    data = table(folder / "log.jsonl", told=1.0)
    first = shortfirst("train", "--data", data, "--config", config, "--json").json
    assert (first["name"], first["version"], first["promoted"]) == (NAME, "1", True)
    return SimpleNamespace(run=shortfirst, folder=folder, data=data, config=config)


def test_a_worse_challenger_is_refused_with_a_table_and_can_be_forced(user):
    worse = user.folder / "worse.toml"
    worse.write_text(SETTINGS + "[lexical.window]\nhead = 1\ntail = 1\n")  # reads next to nothing
    refused = user.run("train", "--data", user.data, "--config", worse, "--json", status=1).json
    assert not refused["promoted"]
    version = refused["version"]
    checks = {c["name"]: c for c in refused["verdict"]["checks"]}
    assert not checks["tau-b"]["passed"]
    assert checks["tau-b"]["difference"] < 0.0
    shown = user.run("promote", NAME, version, "--dry-run", status=1)
    assert "orders worse by" in shown.out
    assert "--force" in shown.said
    forced = user.run("promote", NAME, version, "--force", "--json").json
    assert (forced["kind"], forced["version"], forced["promoted"]) == ("force", version, True)
    back = user.run("rollback", NAME, "--json").json
    assert (back["kind"], back["version"], back["previous"]) == ("rollback", "1", version)
    moves = user.run("promote", NAME, "--json").json
    assert [m["kind"] for m in moves][-3:] == ["promote", "force", "rollback"]
    assert "no version served before" in user.run("rollback", NAME, status=2).said


def test_data_that_is_gone_cannot_be_compared(user):
    gone = shutil.copy(user.data, user.folder / "gone.jsonl")
    made = user.run("train", "--data", gone, "--config", user.config, "--no-promote", "--json").json
    Path(gone).unlink()
    assert "gone.jsonl" in user.run("promote", NAME, made["version"], status=2).said
    table(Path(gone), told=1.0, rows=400)
    changed = user.run("promote", NAME, made["version"], "--json", status=1).json
    assert "no longer, what version" in changed["verdict"]["obstacle"]


STRICT = '[expected_metrics]\n"test.tau" = { at_least = 0.99 }\n'


def test_missed_expectations_fail_and_do_not_promote(user):
    strict = user.folder / "strict.toml"
    strict.write_text(SETTINGS + STRICT)
    done = user.run("train", "--data", user.data, "--config", strict, status=1)
    assert "Missed what the configuration expects" in done.out
    assert "test.tau" in done.out
    assert "registered, not promoted" in done.said


def test_metrics_that_are_expected_of_other_data_are_not_checked(user):
    named = user.folder / "named.toml"
    named.write_text('served_model = "sharegpt"\n' + SETTINGS + STRICT)
    done = user.run("train", "--data", user.data, "--config", named, "--no-promote", "--json")
    assert done.json["missed"] == []
    assert "they are not checked" in done.said


def test_one_ranker_for_several_served_models(user):
    rows = [json.loads(line) for line in user.data.read_text().splitlines()]
    both = user.folder / "both.jsonl"
    with both.open("w") as log:
        for row in rows:
            n, name = row.pop("output_tokens"), row.pop("id")
            for model, times in (("brief", 1), ("wordy", 10)):
                told = row | {"n": times * n, "model": model, "id": f"{name}/{model}"}
                log.write(json.dumps(told) + "\n")
    source = ("--data", both, "--column", "output_tokens=n")
    made = user.run("train", *source, "--pooled", "--config", user.config, "--json").json
    assert (made["name"], made["version"]) == ("length-ranker-pooled", "1")
    found = user.run("evaluate", "models:/length-ranker-pooled/1", *source, "--json").json
    assert found[0]["rows"] == 160
    # Each model's own quantiles: the pooled ones would hold a half of one and all of the other.
    assert abs(found[0]["p90_coverage"] - 0.9) < 0.1
    assert found[0]["tau_b"] > 0.5
    assert "--pooled" in user.run("train", "--pooled", status=2).said
    assert "NAME=COLUMN" in user.run("train", *source[:2], "--column", "n", status=2).said
    assert "about --data" in user.run("train", "--most", "9", status=2).said


def resplit(user, name: str, splits: dict[str, str]) -> Path:
    """The user's log with other words in the column split."""
    rows = [json.loads(line) for line in user.data.read_text().splitlines()]
    made = user.folder / name
    made.write_text(
        "\n".join(json.dumps(r | {"split": splits[r["split"]]}) for r in rows), encoding="utf-8"
    )
    return made


def test_rows_that_a_ranker_was_trained_on_do_not_judge_it(user):
    ranker = f"models:/{NAME}/1"
    fair = user.run("evaluate", ranker, "--data", user.data, "--json").json
    assert [row["left_out"] for row in fair] == [0, 0, 0]
    assert "Left out" not in user.run("evaluate", ranker, "--data", user.data).out
    mixed = {"train": "test", "validation": "validation", "test": "test"}
    other = resplit(user, "mixed.jsonl", mixed)
    found = user.run("evaluate", ranker, "--data", other, "--json").json
    assert [row | {"left_out": 160} for row in fair] == found
    shown = " ".join(user.run("evaluate", ranker, "--data", other).out.split())
    assert f"because {NAME}/1 was trained on them: 160 of 240 test rows." in shown
    swapped = resplit(user, "all.jsonl", {**mixed, "test": "train"})
    said = user.run("evaluate", ranker, "--data", swapped, status=2).said
    assert "160 of 160 rows, and 0 others are too few" in said
    assert "give rows that it was not trained on" in said


def test_a_ranker_that_does_not_say_what_it_was_trained_on_is_told_of(user):
    home = user.folder / "home"
    registry = Registry(Home(home).mlflow_uri, Home(home).artifacts)
    folder = user.folder / "bare"
    artifact.save(registry.load(f"models:/{NAME}/1"), folder)
    kept = [(path, path.with_suffix(".away")) for path in home.rglob(SEEN_FILE)]
    for path, away in kept:  # as runs of before left it
        path.rename(away)
    try:
        for ranker in (folder, f"models:/{NAME}/1"):
            found = user.run("evaluate", ranker, "--data", user.data, "--json").json
            assert [row["left_out"] for row in found] == [None] * 3
            shown = " ".join(user.run("evaluate", ranker, "--data", user.data).out.split())
            assert f"Whether {ranker} was".replace("models:/", "") in shown
            assert "is not known: no run in a registry says" in shown
    finally:
        for path, away in kept:
            away.rename(path)


def test_too_few_rows_to_judge_by_are_an_error_that_names_the_fix(user):
    few = user.folder / "few.jsonl"
    few.write_text("\n".join(user.data.read_text().splitlines()[:20]))
    said = user.run("evaluate", f"models:/{NAME}/1", "--data", few, status=2).said
    assert "few: column split: 5 test rows are too few to judge a ranker by" in said
    assert "give more rows" in said


@pytest.mark.parametrize(
    "options",
    [
        ("--column", "output_tokens=n", "--limit", "9"),
        ("--most", "9"),
        ("--prompts", "prompts.jsonl"),
    ],
)
def test_options_about_data_of_ones_own_are_not_ignored(user, options):
    for bundled in ((), ("--traffic", "all")):
        done = user.run("evaluate", f"models:/{NAME}/1", *bundled, *options, status=2)
        named = [option for option in options if option.startswith("--")]
        assert f"{', '.join(named)}: only about --data" in done.said
    both = user.run("evaluate", "--traffic", "all", "--data", user.data, *options, status=2)
    assert "leave --data away" in both.said


def test_a_run_remembers_its_data(tmp_path, monkeypatch):
    """So that promote finds the rows again, from another folder too."""
    for wanted in (
        Wanted(),
        Wanted("hf:me/chat", "m", None, None, limit=9, most=7),
        Wanted("hf:me/chat", "pooled", tmp_path / "é.jsonl", None, {"prompt": "a, b=c"}),
    ):
        tags = {**wanted.tags(), "served_model": wanted.served_model}
        assert Wanted.of_run(tags, None) == wanted
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chat").mkdir()
    assert Wanted("hf:chat#a.jsonl").tags() == {"data": f"hf:{tmp_path}/chat#a.jsonl"}


def test_a_process_that_only_helps_registers_nothing(user, monkeypatch):
    before = user.run("promote", NAME, "--json").json
    monkeypatch.setenv("RANK", "1")
    done = user.run("train", "--data", user.data, "--config", user.config)
    assert done.out == ""
    assert user.run("promote", NAME, "--json").json == before


def test_ctrl_c_says_how_to_go_on(user, monkeypatch):
    def stopped(*_: object, **__: object) -> None:
        raise Interrupted("training stopped at step 7 of 21")

    monkeypatch.setattr(pipeline, "run", stopped)
    done = user.run("train", "--data", user.data, "--config", user.config, status=130)
    assert "stopped at step 7 of 21" in done.said


def test_addresses_and_names_that_are_none(user):
    nobody = user.run(
        "train", "--data", user.data, "--tracking-uri", "http://127.0.0.1:9", status=2
    )
    assert "no server answers" in nobody.said
    assert "nosuch" in user.run("train", "--config", "nosuch", status=2).said
    two = ("--served-model", "a", "--served-model", "b", "--name", "x")
    assert "--name" in user.run("train", *two, status=2).said
    assert "no version 77" in user.run("promote", NAME, "77", status=2).said
