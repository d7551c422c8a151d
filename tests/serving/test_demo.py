"""``shortfirst demo`` as a user runs it: to its end, and interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serving.demo.config import DemoConfig
from tests.serving.openai_parts import bundled_folder
from training.foreign import load

pytestmark = pytest.mark.slow

DEMO = [sys.executable, "-m", "serving.cli", "demo", "--requests", "12"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A home that is new but for the converted model, which takes long to make."""
    models = bundled_folder(request).parent
    root = tmp_path_factory.mktemp("home") / "démo 1"
    root.mkdir()
    (root / "cache").symlink_to(models.resolve(), target_is_directory=True)
    return root


def left_behind(home: Path) -> list[int]:
    """Processes that work in ``home``."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            ended = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if f"SHORTFIRST_HOME={home}".encode() in variables and not ended:
            found.append(int(folder.name))
    return found


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "SHORTFIRST_HOME": str(home)}


@pytest.mark.timeout(600)
def test_the_whole_loop(home: Path, tmp_path: Path):
    # In an empty folder: no ../shared, so the shift comes from the packaged chat.
    done = subprocess.run(
        [*DEMO, "--json"], cwd=tmp_path, env=environment(home), capture_output=True, text=True
    )
    # Status 1 says that the learned policy lost, as it may on a dozen prompts.
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    policies = found["burst"]["policies"]
    assert set(policies) == {"fcfs", "boost"}
    assert policies["fcfs"]["output_tokens"] == policies["boost"]["output_tokens"]
    assert policies["fcfs"]["requests"] == policies["boost"]["requests"] == 12
    assert policies["boost"]["unscored"] == 0.0
    won = found["burst"]["ratios"]["per-token latency"]["value"] > 1.0
    assert done.returncode == (0 if won else 1)

    drift = found["drift"]
    assert drift["usual"]["tau_b"] > 0.35
    assert drift["different"]["tau_b"] < drift["usual"]["tau_b"] - 0.1
    assert (drift["state_before"], drift["false_alarms"]) == ("ok", 0)
    assert drift["state_after"] in ("degraded", "fcfs")
    assert 0 < drift["alert_after_requests"] < 400

    page = Path(found["report"]).read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "traffic changed" in page
    assert not left_behind(home)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_demo_leaves_no_process(home: Path, tmp_path: Path, sent: signal.Signals):
    if not Path("/proc/self/environ").exists():
        pytest.skip("needs /proc")
    log = tmp_path / "log"
    with log.open("wb") as out:
        demo = subprocess.Popen(
            DEMO, cwd=tmp_path, env=environment(home), stdout=out, stderr=subprocess.STDOUT
        )
        try:
            deadline = time.monotonic() + 120
            while len(left_behind(home)) < 3:  # itself, the rank service, an engine
                assert demo.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            demo.send_signal(sent)
            assert demo.wait(60) == (-sent if sent == signal.SIGKILL else 130)
        finally:
            demo.kill()
    deadline = time.monotonic() + 60
    while left_behind(home):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "Traceback" not in log.read_text()


def test_the_developers_traffic_is_used_where_it_is(request: pytest.FixtureRequest):
    path = request.config.rootpath.parent / "shared" / "data" / "prompts_permissive.parquet"
    if not path.is_file():
        pytest.skip(f"no {path.name} beside the project: traffic of other services")
    assert len(load(path, DemoConfig().foreign_source)) > 500
    with pytest.raises(ValueError, match="source 'nothing' has no rows"):
        load(path, "nothing")
