"""The dashboard by itself: a demonstration with the real monitor, and what is stored."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from itertools import islice
from pathlib import Path

import httpx
import pytest
from scipy.stats import kendalltau

from drift.outcomes import OutcomeStore
from ranker.types import Outcome
from serving.dashboard.demo import DemoConfig, demo_traffic
from serving.dashboard.document import Reading
from serving.dashboard.run import Demo, serve_dashboard, stored_board
from serving.drain import StopSignal
from tests.drift.conftest import make_stream

SMALL = DemoConfig(good=300, bad=100)


def tau(outcomes: list[Outcome]) -> float:
    scored = [o for o in outcomes if o.forecast is not None]
    scores = [o.forecast.score for o in scored if o.forecast is not None]
    return float(kendalltau(scores, [o.output_tokens for o in scored]).statistic)


def test_the_demonstration_decays_as_it_is_told_to() -> None:
    config = DemoConfig(good=2000, bad=2000)
    made = list(islice(demo_traffic(config, 1e9), 8000))
    good, hurt, worse = made[:2000], made[2000:4000], made[4000:]
    assert tau(good) == pytest.approx(config.tau, abs=0.04)
    assert tau([o for o in hurt if o.tenant == "acme"]) == pytest.approx(config.bad_tau, abs=0.08)
    assert tau([o for o in hurt if o.tenant != "acme"]) == pytest.approx(config.tau, abs=0.05)
    assert tau(worse) == pytest.approx(config.bad_tau, abs=0.04)
    assert made == list(islice(demo_traffic(config, 1e9), 8000))
    assert all(o.arrival <= o.finished for o in made)
    waits = [o.finished - o.arrival - o.output_tokens / 24.0 for o in made]
    assert max(waits) > 5.0  # there is a queue, so there is something to save


async def test_a_demonstration_is_the_real_monitor_over_http() -> None:
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    with Demo(SMALL) as demo:
        stop = StopSignal()
        task = asyncio.create_task(
            serve_dashboard(demo.read, "127.0.0.1", 0, stop, address.set_result)
        )
        async with httpx.AsyncClient(base_url=await address, timeout=60) as client:
            async with asyncio.timeout(120):
                while not (board := (await client.get("board.json")).json())["models"]:
                    await asyncio.sleep(0.05)
            assert board["models"][0]["served_model"] == "demo-model"
            assert board["reporters"][0]["reporter"] == "demo"
        stop.receive()
        await task


async def test_what_is_stored_can_be_looked_at(tmp_path: Path) -> None:
    store = OutcomeStore(tmp_path / "o.db")
    store.put(make_stream(600, 0.6, 1))
    found = Reading(stored_board(store, 5000))()
    store.close()
    (model,) = found["models"]
    assert model["overall"]["outcomes"] >= 500
    assert model["overall"]["efficiency"]["value"] > 0.5
    assert len(model["worth"]) == 1


async def test_the_command_prints_its_address_and_stops(tmp_path: Path) -> None:
    store = OutcomeStore(tmp_path / "o.db")
    store.put(make_stream(60, 0.6, 1))
    store.close()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "serving.cli", "drift", "dashboard", "--port", "0",
        "--outcomes", str(tmp_path / "o.db"), stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "SHORTFIRST_HOME": str(tmp_path)},
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(120):
        address = (await process.stdout.readline()).decode().strip()
        async with httpx.AsyncClient(timeout=60) as client:
            assert (await client.get(address)).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [({"good": 0}, "good"), ({"bad_tau": 1.0}, "bad_tau"), ({"gap": 0.0}, "gap")],
)
def test_a_bad_setting_of_the_demonstration_is_named(change: dict[str, float], field: str) -> None:
    with pytest.raises(ValueError, match=rf"demo\.{field}"):
        DemoConfig(**change)  # type: ignore[arg-type]
