"""The loop: streams, aborts, failures. A scripted executor stands in for the model."""

import asyncio
import time

import pytest

from engine.core import policies
from engine.core.scheduler import Scheduler
from engine.detokenise import InContext
from engine.events import Dead, InUse, Overloaded
from engine.loop import EngineLoop
from engine.sampling import SamplingParams
from engine.stop import StopRule
from ranker.types import FinishReason, Forecast
from tests.engine.torch.scripted import CONFIG, EOS, collect, entered

FORECAST = Forecast(1.0, (1.0, 2.0), "r", "1", levels=(0.5, 0.9))


async def test_tokens_then_one_end(engine, outcomes):
    stream = await engine.submit("a", [1, 2, 3], SamplingParams(), FORECAST, "tenant")
    text, ids, end = await collect(stream)
    assert (text, ids) == ("fghij", [5, 6, 7, 8, 9, EOS])
    assert (end.reason, end.prompt_tokens, end.output_tokens) == (FinishReason.STOP, 3, 6)
    assert end.scored
    assert end.queue_seconds >= 0
    (outcome,) = outcomes
    assert (outcome.request_id, outcome.served_model, outcome.tenant) == ("a", "m", "tenant")
    assert (outcome.output_tokens, outcome.finish_reason) == (6, FinishReason.STOP)
    assert outcome.forecast == FORECAST
    assert abs(outcome.arrival - time.time()) < 60


async def test_many_at_once_each_get_their_own(engine):
    streams = {}
    for i in range(4):
        streams[i] = await engine.submit(f"r{i}", [1] * (i + 1), SamplingParams(max_tokens=i + 1))
    for i, stream in streams.items():
        _, ids, end = await collect(stream)
        assert ids == [5, 6, 7, 8][: i + 1]
        assert end.reason is FinishReason.LENGTH
        assert (end.prompt_tokens, end.output_tokens) == (i + 1, i + 1)
    assert engine.stats().running == engine.stats().waiting == 0


async def test_ignore_eos_runs_to_the_limit(engine):
    stream = await engine.submit("a", [1], SamplingParams(max_tokens=9, ignore_eos=True))
    _, ids, end = await collect(stream)
    assert len(ids) == 9
    assert end.reason is FinishReason.LENGTH


async def test_the_window_ends_what_nothing_else_ends(engine, script):
    script.length = 1000
    _, ids, end = await collect(await engine.submit("a", [1] * 90, SamplingParams()))
    assert len(ids) == 10
    assert end.reason is FinishReason.LENGTH
    with pytest.raises(ValueError, match="prompt has 100 tokens"):
        await engine.submit("b", [1] * 100, SamplingParams())


async def test_abort_while_the_model_runs_frees_memory(engine, script, outcomes):
    script.gate.clear()
    first = await engine.submit("a", [1] * 8, SamplingParams())
    second = await engine.submit("b", [1], SamplingParams())
    await entered(script)
    engine.abort("a")
    engine.abort("a")
    engine.abort("unknown")
    assert (await collect(first))[2].reason is FinishReason.ABORT
    script.gate.set()
    assert (await collect(second))[2].reason is FinishReason.STOP
    assert engine.stats().kv_usage == 0
    assert [o.finish_reason for o in outcomes] == [FinishReason.ABORT, FinishReason.STOP]
    # The id can be used again, and its new stream is whole.
    assert (await collect(await engine.submit("a", [1], SamplingParams())))[0] == "fghij"


async def test_a_failing_step_ends_its_requests_alone(engine, script, outcomes, caplog):
    caplog.set_level("DEBUG")
    script.gate.clear()
    script.fail_next = RuntimeError("prompt text must not be logged")
    doomed = await engine.submit("a", [1], SamplingParams())
    await entered(script)
    spared = await engine.submit("b", [1], SamplingParams())
    script.gate.set()
    assert (await collect(doomed))[2].reason is FinishReason.ERROR
    assert (await collect(spared))[2].reason is FinishReason.STOP
    assert engine.alive
    assert engine.stats().failed_steps == 1
    assert engine.stats().kv_usage == 0
    assert {o.request_id: o.finish_reason for o in outcomes} == {
        "a": FinishReason.ERROR,
        "b": FinishReason.STOP,
    }
    assert "RuntimeError" in caplog.text
    assert "must not be logged" not in caplog.text


async def test_a_request_without_a_token_fails_alone(engine, script):
    script.gate.clear()
    script.silent.add("a")
    lost = await engine.submit("a", [1], SamplingParams())
    spared = await engine.submit("b", [1], SamplingParams())
    script.gate.set()
    text, _, end = await collect(lost)
    assert (text, end.reason, end.output_tokens) == ("", FinishReason.ERROR, 0)
    assert (await collect(spared))[2].reason is FinishReason.STOP
    assert engine.stats().failed_steps == 0


async def test_text_that_cannot_be_decoded_ends_its_request_alone(
    engine, script, outcomes, monkeypatch, caplog
):
    def broken(ids):
        raise RuntimeError("what was said must not be logged")

    script.gate.clear()
    decoded = engine._roster._texts
    monkeypatch.setattr(engine._roster, "_texts", lambda _: InContext(broken))
    doomed = await engine.submit("a", [1], SamplingParams())
    monkeypatch.setattr(engine._roster, "_texts", decoded)
    spared = await engine.submit("b", [1], SamplingParams())
    await entered(script)
    script.gate.set()
    assert (await collect(doomed))[2].reason is FinishReason.ERROR
    assert (await collect(spared))[0] == "fghij"
    assert engine.alive
    assert engine.stats().kv_usage == 0
    assert {o.request_id: o.finish_reason for o in outcomes} == {
        "a": FinishReason.ERROR,
        "b": FinishReason.STOP,
    }
    assert "RuntimeError" in caplog.text
    assert "must not be logged" not in caplog.text


async def test_a_broken_stop_rule_does_not_end_the_loop(engine, script, monkeypatch):
    def broken(*_):
        raise RuntimeError("stop bug")

    with monkeypatch.context() as patch:
        patch.setattr(StopRule, "check", broken)
        doomed = await engine.submit("a", [1], SamplingParams())
        assert (await collect(doomed))[2].reason is FinishReason.ERROR
    assert (await collect(await engine.submit("b", [1], SamplingParams())))[0] == "fghij"


async def test_a_dead_loop_fails_every_stream(engine, script, monkeypatch):
    script.gate.clear()
    running = await engine.submit("a", [1], SamplingParams())
    await entered(script)
    waiting = await engine.submit("b", [1], SamplingParams())

    def broken(*_):
        raise RuntimeError("scheduler bug")

    monkeypatch.setattr(engine._scheduler, "commit", broken)
    script.gate.set()
    assert (await collect(running))[2].reason is FinishReason.ERROR
    assert (await collect(waiting))[2].reason is FinishReason.ERROR
    assert not engine.alive
    engine.abort("a")  # by a client that hung up at that moment
    with pytest.raises(Dead):
        await engine.submit("c", [1], SamplingParams())


async def test_a_full_queue_refuses_and_forgets(engine, script):
    script.gate.clear()
    await engine.submit("running", [1], SamplingParams())
    await entered(script)
    streams = [await engine.submit(f"w{i}", [1], SamplingParams()) for i in range(4)]
    with pytest.raises(Overloaded):
        await engine.submit("late", [1], SamplingParams())
    script.gate.set()
    for stream in streams:
        await collect(stream)
    assert (await collect(await engine.submit("late", [1], SamplingParams())))[0] == "fghij"


async def test_the_same_id_twice_is_refused(engine, script):
    script.gate.clear()
    first = await engine.submit("a", [1], SamplingParams())
    with pytest.raises(InUse):
        await engine.submit("a", [1], SamplingParams())
    script.gate.set()
    assert (await collect(first))[2].reason is FinishReason.STOP


async def test_an_aborted_id_is_in_use_until_its_step_is_over(engine, script):
    script.gate.clear()
    first = await engine.submit("a", [1], SamplingParams())
    await entered(script)
    engine.abort("a")
    assert (await collect(first))[2].reason is FinishReason.ABORT
    with pytest.raises(InUse):
        await engine.submit("a", [1], SamplingParams())
    script.gate.set()
    assert await asyncio.to_thread(engine.drain, 20.0)


async def test_measured_steps_fit_a_cost_model(engine):
    from engine.costs import fit

    for i in range(4):
        await collect(await engine.submit(f"r{i}", [1] * (i + 1), SamplingParams()))
    steps = engine.measured_steps()
    assert sum(s.prefill_tokens for s in steps) == 1 + 2 + 3 + 4
    assert sum(s.decodes for s in steps) == 4 * 5
    # A decode attends to its own token too, as the simulator counts it.
    assert sum(s.context_tokens for s in steps) == sum(
        p + o for p in (1, 2, 3, 4) for o in range(1, 6)
    )
    assert fit(steps).cost.step(1, 0) >= 0


async def test_stats_have_help_for_every_metric(engine):
    from engine.stats import HELP

    await collect(await engine.submit("a", [1], SamplingParams(), FORECAST))
    await collect(await engine.submit("b", [1], SamplingParams()))
    stats = engine.stats()
    metrics = {reading.name: reading.value for reading in stats.readings()}
    assert {*metrics, stats.step_tokens.name} == HELP.keys()
    assert sum(stats.step_tokens.counts) == metrics["shortfirst_engine_steps_total"]
    assert metrics["shortfirst_engine_requests_scored_total"] == 1
    assert metrics["shortfirst_engine_requests_unscored_total"] == 1
    assert metrics["shortfirst_engine_tokens_sampled_total"] == 12


async def test_a_request_whose_text_cannot_begin_leaves_nothing(script):
    def broken(skip_special):
        raise OSError("no vocabulary")

    loop = EngineLoop(
        Scheduler(CONFIG, policies.make("fcfs")), script, StopRule({EOS}, 100), broken,
        served_model="m",
    )  # fmt: skip
    loop.start()
    with pytest.raises(OSError, match="no vocabulary"):
        await loop.submit("a", [1], SamplingParams())
    stats = loop.stats()
    assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0.0)
    assert not script.sequences
    loop.abort("a")  # as whoever saw the error does; nobody minds
    loop.close()


async def test_an_answer_says_how_evenly_its_tokens_came(engine):
    ended = (await collect(await engine.submit("a", [1], SamplingParams())))[2]
    assert ended.pace.gaps == 5
    assert ended.pace.longest >= ended.pace.p99 >= ended.pace.mean > 0.0
    assert ended.pace.stalls == {}
    assert ended.phases.prefill + ended.phases.decode == pytest.approx(ended.phases.inference)
    assert set(engine.stats().stalls.values()) == {0.0}
