"""The end of the loop: draining, and others that end before it."""

import asyncio

import pytest

from engine.core import policies
from engine.core.scheduler import Scheduler
from engine.events import Dead
from engine.loop import EngineLoop
from engine.sampling import SamplingParams
from engine.stop import StopRule
from ranker.types import FinishReason
from tests.engine.torch.scripted import CONFIG, EOS, collect, entered, texts


async def test_drain_lets_requests_end(engine):
    stream = await engine.submit("a", [1], SamplingParams())
    assert await asyncio.to_thread(engine.drain, 20.0)
    assert (await collect(stream))[2].reason is FinishReason.STOP
    with pytest.raises(Dead):
        await engine.submit("b", [1], SamplingParams())


async def test_drain_aborts_at_the_deadline(engine, script):
    script.gate.clear()
    stream = await engine.submit("a", [1], SamplingParams())
    await entered(script)
    assert not await asyncio.to_thread(engine.drain, 0.0)
    assert (await collect(stream))[2].reason is FinishReason.ABORT


async def test_a_broken_outcome_sink_hurts_nobody(script):
    def sink(outcome):
        raise OSError("disk full")

    loop = EngineLoop(
        Scheduler(CONFIG, policies.make("fcfs")), script, StopRule({EOS}, 100), texts,
        served_model="m", on_outcome=sink,
    )  # fmt: skip
    loop.start()
    assert (await collect(await loop.submit("a", [1], SamplingParams())))[0] == "fghij"
    loop.close()


def test_a_client_whose_event_loop_is_gone_is_aborted(engine, script, outcomes):
    script.gate.clear()
    script.length = 50

    async def submit_and_leave():
        await engine.submit("a", [1], SamplingParams())

    asyncio.run(submit_and_leave())
    script.gate.set()
    assert engine.drain(20.0)
    assert [o.finish_reason for o in outcomes] == [FinishReason.ABORT]
