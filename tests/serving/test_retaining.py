"""Prompts are on disk where retention was switched on, and nowhere else."""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from drift.prompts import RetentionConfig
from serving.cli import app, retain_prompts
from serving.retaining import retaining
from shortfirst.rank.v1 import rank_pb2
from tests.serving.parts import SECRET, serve_rank

NOW = 1_700_000_000.0


def asked(*prompts: str) -> rank_pb2.RankRequest:
    items = [rank_pb2.RankItem(id=f"r{i}", prompt=prompt) for i, prompt in enumerate(prompts)]
    return rank_pb2.RankRequest(items=items, tenant="acme", served_model="sharegpt")


def rows(path: Path) -> list[tuple[str, str, str, bytes]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(
            "SELECT request_id, served_model, tenant, prompt FROM prompts ORDER BY request_id"
        ).fetchall()


async def test_what_is_ranked_is_kept_under_the_id_of_its_request(tmp_path: Path) -> None:
    path, registry = tmp_path / "prompts.db", CollectorRegistry()
    with retaining(path, RetentionConfig(1.0), registry, lambda: NOW) as consumers:
        async with serve_rank(ranked=consumers) as rank:
            await rank.stub.Rank(asked(SECRET, "nul \0 été"))
            await rank.stub.Rank(asked("again, another text"))
    assert rows(path) == [
        ("r0", "sharegpt", "acme", SECRET.encode()),
        ("r1", "sharegpt", "acme", "nul \0 été".encode()),
    ]
    kept = registry.get_sample_value("shortfirst_drift_prompts_total", {"result": "kept"})
    assert kept == 2.0


async def test_without_retention_no_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "prompts.db"
    with retaining(path, None, CollectorRegistry(), lambda: NOW) as consumers:
        assert consumers == ()
        async with serve_rank(ranked=consumers) as rank:
            await rank.stub.Rank(asked(SECRET))
    assert list(tmp_path.iterdir()) == []


async def test_a_disk_that_fails_fails_no_answer_and_no_log_tells_the_prompt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "prompts.db"
    with (
        caplog.at_level(logging.DEBUG),
        retaining(path, RetentionConfig(1.0), CollectorRegistry(), lambda: NOW) as consumers,
    ):
        with closing(sqlite3.connect(path)) as db:
            db.execute("DROP TABLE prompts")
        async with serve_rank(ranked=consumers) as rank:
            assert (await rank.stub.Rank(asked(SECRET))).forecasts
    assert "1 prompts were not retained" in caplog.text
    assert SECRET not in caplog.text


def test_the_operator_is_told_what_is_kept_and_how_to_delete_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prompts.db"
    assert retain_prompts.chosen(0.0, path) is None
    assert capsys.readouterr().err == ""
    assert retain_prompts.chosen(7.0, path) == RetentionConfig(7.0)
    assert "retained for 7 days" in capsys.readouterr().err
    with retaining(path, RetentionConfig(7.0), CollectorRegistry(), lambda: NOW):
        pass
    assert retain_prompts.chosen(0.0, path) is None
    assert "drift forget" in capsys.readouterr().err


async def test_the_command_that_forgets(tmp_path: Path) -> None:
    path = tmp_path / "prompts.db"
    with retaining(path, RetentionConfig(9.0), CollectorRegistry(), lambda: NOW) as consumers:
        async with serve_rank(ranked=consumers) as rank:
            await rank.stub.Rank(asked("one", "two"))
    environ = {"SHORTFIRST_HOME": str(tmp_path)}

    def forget(*options: str) -> int:
        done = CliRunner().invoke(app, ["drift", "forget", "--json", *options], env=environ)
        assert done.exit_code == 0, done.output
        return int(json.loads(done.stdout)["deleted"])

    assert forget("--tenant", "other") == 0
    assert forget("--older-than", "1") == 0
    assert len(rows(path)) == 2
    assert forget("--older-than", "0") == 2
    assert rows(path) == []
    assert forget() == 0
