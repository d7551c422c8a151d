"""The loop closes, with real models over real sockets: as ``shortfirst drift loop`` runs it."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from serving.cli import app
from serving.drift_loop.config import RANKER, LoopDemoConfig
from tests.serving.openai_parts import bundled_folder
from tests.serving.test_demo import left_behind

#: Of everything that the service writes but the prompts themselves.
_MOST_BYTES = 64 << 20


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_shift_alert_retraining_promotion_recovery_and_rollback(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    home, kept = tmp_path / "home", tmp_path / "kept"
    home.mkdir()
    (home / "cache").symlink_to(bundled_folder(request).parent.resolve(), target_is_directory=True)
    done = subprocess.run(
        [sys.executable, "-m", "serving.cli", "drift", "loop", "--json", "--rounds", "40",
         "--usual", "600", "--gather", "900", "--shadow", "100", "--keep", str(kept)],
        env={**os.environ, "SHORTFIRST_HOME": str(home)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert found["false_alarms"] == 0
    assert 0 < found["alert"] <= 600
    assert (found["promoted"], found["rolled_back"]) == ("2", "1")
    assert found["recovered"] >= 0.9
    worth = {name: value["efficiency"] for name, value in found["fresh"].items()}
    assert worth["before"] < worth["retrained"]
    assert worth["before"] < found["usual"]["efficiency"] - 0.1
    assert found["reference_tau"] == pytest.approx(
        found["fresh"]["retrained"]["tau"]["value"], abs=0.1
    )
    assert not left_behind(home)
    assert not left_behind(kept)
    _told(kept)
    _private(kept)


def _told(kept: Path) -> None:
    """Who, when, on what grounds, which versions: by the command that people use."""
    environ = {"SHORTFIRST_HOME": str(kept), "SHORTFIRST_TRACKING_URI": ""}
    out = CliRunner().invoke(app, ["drift", "history", "--last", "200", "--json"], env=environ)
    entries = json.loads(out.stdout)
    moves = [e for e in entries if e["kind"] in ("promotion", "rollback")]
    assert [(e["kind"], e["before"], e["after"]) for e in moves] == [
        ("promotion", "", "1"), ("promotion", "1", "2"), ("rollback", "2", "1"),
    ]  # fmt: skip
    assert all(e["actor"] and e["ranker"] == RANKER for e in moves)
    assert "recent outcomes" in moves[1]["gate"]
    phases = [e["after"] for e in entries if e["kind"] == "retraining"]
    assert phases == ["gathering", "training", "trained", "promoting", "promoted"]
    states = [(e["version"], e["after"]) for e in entries if e["kind"] == "state"]
    assert ("1", "degraded") in states
    assert states[-1] == ("1", "ok")  # another took its place: it alarms no more
    references = {e["version"] for e in entries if e["kind"] == "reference"}
    assert references == {"1", "2"}


def _private(kept: Path) -> None:
    """Prompts are where they were retained, for their owner alone, and nowhere else."""
    store = kept / "prompts.db"
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    with closing(sqlite3.connect(store)) as db:
        rows = db.execute("SELECT prompt FROM prompts WHERE bytes > 60 LIMIT 200").fetchall()
    texts = [bytes(text) if isinstance(text, bytes) else str(text).encode() for (text,) in rows]
    assert len(texts) == 200
    others = [p for p in kept.rglob("*") if p.is_file() and not p.name.startswith("prompts.db")]
    assert {
        "outcomes.db",
        "drift-history.db",
        "rank-service.log",
        "outcomes.db.retraining.log",
    } <= {p.name for p in others}
    for path in others:
        content = path.read_bytes()
        assert len(content) < _MOST_BYTES
        assert not any(text[:60] in content for text in texts), path


@pytest.mark.parametrize("change", [{"usual": 0}, {"gather": 0}, {"shadow": -1}, {"bursts": 0}])
def test_odd_settings_are_refused_by_name(change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"loop.{next(iter(change))}"):
        LoopDemoConfig(**change)  # type: ignore[arg-type]
