"""The loop with lanes, budgets and a prefix cache: what it passes on, counts and waits for."""

import asyncio
from contextlib import contextmanager
from dataclasses import replace

import pytest

from engine.core import policies
from engine.core.budgets import Budget
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane, LaneConfig, Slo
from engine.core.scheduler import Scheduler
from engine.events import Overloaded
from engine.executor import MovesFailed
from engine.hashing import BlockHasher
from engine.loop import EngineLoop
from engine.sampling import SamplingParams
from engine.stop import StopRule
from ranker.types import FinishReason
from tests.engine.torch.scripted import CONFIG, EOS, Script, collect, entered, texts


def lane(name, policy="fcfs", **settings):
    return Lane(LaneConfig(name, **settings), policies.make(policy))


@contextmanager
def running(script, lanes, outcomes=None, config=CONFIG, fairness=None):
    loop = EngineLoop(
        Scheduler(config, lanes, fairness=fairness), script, StopRule({EOS}, 100), texts,
        served_model="m", on_outcome=(outcomes if outcomes is not None else []).append,
        hasher=BlockHasher(config.block_size),
    )  # fmt: skip
    loop.start()
    try:
        yield loop
    finally:
        script.gate.set()
        loop.close()


def readings(loop):
    return {(r.name.removeprefix("shortfirst_engine_"), r.labels): r.value
            for r in loop.stats().readings()}  # fmt: skip


async def test_a_request_is_told_its_lane_and_so_is_its_outcome(script, outcomes):
    with running(script, [lane("chat"), lane("batch")], outcomes) as loop:
        default = await collect(await loop.submit("a", [1], SamplingParams()))
        chosen = await collect(await loop.submit("b", [1], SamplingParams(), lane="batch"))
        with pytest.raises(ValueError, match="chat, batch"):
            await loop.submit("c", [1], SamplingParams(), lane="express")
        # What was refused is forgotten.
        again = await collect(await loop.submit("c", [1], SamplingParams()))
    assert [end.lane for _, _, end in (default, chosen, again)] == ["chat", "batch", "chat"]
    assert [outcome.lane for outcome in outcomes] == ["chat", "batch", "chat"]


async def test_priority_decides_within_its_lane(script):
    order = []
    with running(script, [lane("p", "priority")], config=replace(CONFIG, max_num_seqs=1)) as loop:
        script.gate.clear()
        streams = [await loop.submit("first", [1], SamplingParams())]
        await entered(script)
        for priority in (5, -2, 0):
            streams.append(
                await loop.submit(str(priority), [1], SamplingParams(), priority=priority)
            )
        script.gate.set()

        async def watch(stream):
            await collect(stream)
            order.append(stream.request_id)

        await asyncio.gather(*map(watch, streams))
    assert order == ["first", "-2", "0", "5"]


async def test_a_full_lane_is_refused_and_counted_while_the_other_takes_more(script):
    with running(script, [lane("chat"), lane("batch", max_waiting=1)]) as loop:
        script.gate.clear()
        await loop.submit("running", [1], SamplingParams())
        await entered(script)
        await loop.submit("waits", [1], SamplingParams(), lane="batch")
        with pytest.raises(Overloaded, match="'batch'"):
            await loop.submit("late", [1], SamplingParams(), lane="batch")
        await loop.submit("other", [1], SamplingParams())
        seen = readings(loop)
    assert seen["lane_requests_refused_total", (("lane", "batch"),)] == 1
    assert seen["lane_requests_refused_total", (("lane", "chat"),)] == 0
    assert seen["lane_num_requests_waiting", (("lane", "batch"),)] == 1
    assert seen["lane_num_requests_running", (("lane", "chat"),)] == 1


async def test_objectives_are_counted_by_lane(script):
    """On a clock that a step advances by a second: six tokens take six seconds."""
    lanes = [
        lane("loose", slo=Slo(ttft=1.5, tpot=1.1, e2el=6.5)),
        lane("ttft", slo=Slo(ttft=0.5)),
        lane("tpot", slo=Slo(tpot=0.9)),
        lane("e2el", slo=Slo(e2el=5.5)),
        lane("none"),
    ]

    class Clock(Script):
        now = 0.0

        def run(self, plan):
            tokens = super().run(plan)
            self.now += 1.0
            return tokens

    script = Clock()
    loop = EngineLoop(
        Scheduler(CONFIG, lanes), script, StopRule({EOS}, 100), texts, served_model="m",
        clock=lambda: script.now,
    )  # fmt: skip
    loop.start()
    for each in lanes:
        await collect(await loop.submit(each.name, [1], SamplingParams(), lane=each.name))
    script.silent.add("fails")
    await collect(await loop.submit("fails", [1], SamplingParams(), lane="none"))
    script.gate.clear()
    left = await loop.submit("left", [1], SamplingParams(), lane="none")
    await entered(script)
    loop.abort("left")
    script.gate.set()
    await collect(left)
    await asyncio.to_thread(loop.close)
    seen = readings(loop)
    ended = {each.name: seen["lane_requests_ended_total", (("lane", each.name),)] for each in lanes}
    met = {each.name: seen["lane_slo_met_total", (("lane", each.name),)] for each in lanes}
    assert ended == {"loose": 1, "ttft": 1, "tpot": 1, "e2el": 1, "none": 2}
    assert met == {"loose": 1, "ttft": 0, "tpot": 0, "e2el": 0, "none": 1}


async def test_a_tenant_without_budget_waits_for_it_and_nobody_else_does(script):
    order = []
    fairness = FairnessConfig(budgets={"poor": Budget(rate=40.0, burst=1.0)})
    with running(script, [lane("only")], fairness=fairness) as loop:
        await collect(await loop.submit("first", [1] * 8, SamplingParams(), tenant="poor"))

        async def watch(name, tenant):
            end = (await collect(await loop.submit(name, [1], SamplingParams(), tenant=tenant)))[2]
            order.append(name)
            return end

        poor, _ = await asyncio.gather(watch("poor", "poor"), watch("rich", "rich"))
    assert order == ["rich", "poor"]
    assert poor.reason is FinishReason.STOP
    # The first used 14 tokens, of which 1 was saved: 13 of debt, at 40 a second.
    assert poor.queue_seconds > 0.2


async def test_prompts_and_answers_are_found_again(script):
    with running(script, [lane("only")]) as loop:
        prompt = [5] * 9
        _, answer, first = await collect(await loop.submit("a", prompt, SamplingParams()))
        _, _, again = await collect(await loop.submit("b", prompt, SamplingParams()))
        turn = await loop.submit("c", [*prompt, *answer, 7], SamplingParams())
        _, _, second = await collect(turn)
        seen = readings(loop)
    # Blocks of 4; the last token of an answer is never computed.
    assert (first.cached_tokens, again.cached_tokens, second.cached_tokens) == (0, 8, 12)
    assert seen["prefix_cache_hits_total", ()] == 20
    assert seen["prefix_cache_queries_total", ()] == 9 + 9 + 16


async def test_lost_blocks_end_the_engine(script, caplog):
    """Nobody knows any more what the cache holds: a restart is the safe way on."""
    with running(script, [lane("only")]) as loop:
        script.gate.clear()
        stream = await loop.submit("a", [1], SamplingParams())
        await entered(script)
        other = await loop.submit("b", [1], SamplingParams())
        script.fail_next = MovesFailed("blocks could not be moved")
        script.gate.set()
        assert (await collect(stream))[2].reason is FinishReason.ERROR
        assert (await collect(other))[2].reason is FinishReason.ERROR
        assert not loop.alive
    assert "MovesFailed" in caplog.text
