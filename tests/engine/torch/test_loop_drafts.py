"""The loop when a step yields several tokens: what is streamed, counted and told."""

from dataclasses import replace

import pytest

from engine.core import policies
from engine.core.costs import CostModel
from engine.core.scheduler import Scheduler
from engine.loop import EngineLoop
from engine.sampling import SamplingParams
from engine.stop import StopRule
from engine.token import Token
from ranker.types import FinishReason
from tests.engine.torch.drafters import ALWAYS
from tests.engine.torch.scripted import CONFIG, EOS, Script, collect, texts


class Bursts(Script):
    """Three of the four drafts are made, and two of them stand, also behind an end."""

    def run(self, plan):
        tokens, self.drafted = dict(super().run(plan)), {}
        for step in plan.steps:
            if step.drafts >= 3 and step.request_id in tokens:
                sequence = self.sequences[step.request_id]
                self.drafted[step.request_id] = 3
                for _ in range(2):
                    done = sequence.output_tokens + 1 >= self.length
                    token = Token(EOS if done else 5 + sequence.output_tokens)
                    sequence.append(token.id)
                    tokens[step.request_id] += (token,)
        return tokens


@pytest.fixture
def script():
    return Bursts()


@pytest.fixture
def engine(script, outcomes):
    config = replace(CONFIG, cost=CostModel(0.01, 0.001, 0.001))
    scheduler = Scheduler(config, policies.make("fcfs"), speculation=ALWAYS)
    loop = EngineLoop(
        scheduler, script, StopRule({EOS}, 100), texts,
        served_model="m", on_outcome=outcomes.append,
    )  # fmt: skip
    loop.start()
    yield loop
    script.gate.set()
    loop.close()


async def test_several_tokens_are_one_event_and_none_comes_behind_the_end(engine, outcomes):
    """Six tokens: one with the prompt, three, and two of the three that follow."""
    stream = await engine.submit("a", [1, 2, 3], SamplingParams())
    events = [event async for event in stream]
    assert [event.token_ids for event in events[:-1]] == [(5,), (6, 7, 8), (9, EOS)]
    assert events[-1].reason is FinishReason.STOP
    assert events[-1].output_tokens == 6
    assert outcomes[0].output_tokens == 6
    stats = engine.stats()
    assert (stats.steps, stats.output_tokens, stats.kv_usage) == (3, 6, 0)
    assert (stats.scheduler.drafts, stats.scheduler.drafted_tokens) == (2, 6)
    assert stats.scheduler.accepted_tokens == 2 + 1
    # A step decodes one token, and verifies the guesses that were made as it computes a prompt.
    assert [(s.decodes, s.prefill_tokens) for s in engine.measured_steps()] == [
        (0, 3), (1, 3), (1, 3),
    ]  # fmt: skip


async def test_limits_fall_between_drafts(engine):
    for limit in range(1, 6):
        stream = await engine.submit(f"r{limit}", [1], SamplingParams(max_tokens=limit))
        _, ids, end = await collect(stream)
        assert ids == [5, 6, 7, 8, 9][:limit]
        assert (end.reason, end.output_tokens) == (FinishReason.LENGTH, limit)


async def test_a_stop_text_between_drafts_cuts_them_off(engine):
    stream = await engine.submit("a", [1], SamplingParams(stop=("h",), ignore_eos=True))
    text, ids, end = await collect(stream)
    assert text == "fg"
    assert ids == [5, 6, 7]
    assert (end.reason, end.output_tokens) == (FinishReason.STOP, 3)


async def test_a_failing_step_with_drafts_is_none_that_was_drafted(engine, script):
    script.gate.clear()
    stream = await engine.submit("a", [1], SamplingParams())
    script.fail_next = RuntimeError("step")
    script.gate.set()
    assert (await collect(stream))[2].reason is FinishReason.ERROR
    assert (await collect(await engine.submit("b", [1], SamplingParams())))[0] == "fghij"
    assert engine.alive
