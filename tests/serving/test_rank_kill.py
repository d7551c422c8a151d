"""``kill -9`` of a rank service that is taking outcomes: what it acknowledged is there."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
from pathlib import Path

import grpc
import pytest

from drift.outcomes import OutcomeStore
from serving.messages import outcome_message
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc

ROOT = Path(__file__).resolve().parents[2]

SERVER = """
import asyncio, sys, time
from pathlib import Path
from drift.sink import MonitoredStore
from drift.worker import Worker
from tests.serving.parts import serve_rank

async def main(folder):
    sink = MonitoredStore.open(folder / "o.db", folder / "e.jsonl", time.time, work=Worker())
    async with serve_rank(sink=sink) as rank:
        print(rank.address, flush=True)
        await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1])))
"""


async def _start(folder: Path) -> tuple[asyncio.subprocess.Process, str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "proto"), os.environ.get("PYTHONPATH", "")])
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(folder), cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    return process, (await process.stdout.readline()).decode().strip()


@pytest.mark.slow
async def test_no_acknowledged_outcome_is_lost_to_kill_9(outcome, tmp_path) -> None:  # type: ignore[no-untyped-def]
    made = [
        dataclasses.replace(outcome(f"r{i}"), arrival=1.7e9 + i, finished=1.7e9 + i + 1)
        for i in range(1600)
    ]
    batches = [
        rank_pb2.ReportOutcomesRequest(outcomes=list(map(outcome_message, made[i : i + 8])))
        for i in range(0, len(made), 8)
    ]
    acknowledged: set[str] = set()
    for kill_after in (11, 37):  # acknowledgements; more calls are under way by then
        process, address = await _start(tmp_path)
        try:
            async with grpc.aio.insecure_channel(address) as channel:
                stub = rank_pb2_grpc.RankServiceStub(channel)
                acks = 0

                async def report(request) -> None:  # type: ignore[no-untyped-def]
                    nonlocal acks
                    try:
                        await stub.ReportOutcomes(request, timeout=60)  # noqa: B023
                    except grpc.aio.AioRpcError:
                        return
                    acknowledged.update(o.request_id for o in request.outcomes)
                    acks += 1
                    if acks == kill_after:  # noqa: B023
                        os.kill(process.pid, signal.SIGKILL)  # noqa: B023

                await asyncio.gather(*map(report, batches))
            assert await process.wait() == -signal.SIGKILL
        finally:
            if process.returncode is None:
                process.kill()
        store = OutcomeStore(tmp_path / "o.db")
        stored = {o.request_id for o in store.by_report()}
        store.close()
        assert len(acknowledged) >= 8 * kill_after
        assert acknowledged <= stored
        assert len(stored) % 8 == 0  # a batch is there whole or not at all

    process, address = await _start(tmp_path)
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            stub = rank_pb2_grpc.RankServiceStub(channel)
            answers = [await stub.ReportOutcomes(request, timeout=60) for request in batches]
        assert sum(a.stored for a in answers) == len(made) - len(stored)
        assert sum(a.duplicates for a in answers) == len(stored)
        assert sum(a.conflicts for a in answers) == 0
    finally:
        process.terminate()
        await process.wait()
