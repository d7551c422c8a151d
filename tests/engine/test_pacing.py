"""Whose fault a late token is, on plans as the scheduler makes them."""

from __future__ import annotations

import pytest

from engine.core import policies
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.plan import Move, Plan, Step
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from engine.pace import Cause, Pace
from engine.pacing import Pacing
from ranker.types import FinishReason


def decode(name: str, start: int = 9) -> Step:
    return Step(name, start, 1, (0,), True)


def chunk(name: str, tokens: int, samples: bool = False) -> Step:
    return Step(name, 0, tokens, (0,), samples)


class Clock:
    """Steps without pause between them, on a clock that stands still otherwise."""

    def __init__(self) -> None:
        self.pacing = Pacing()
        self.now = 0.0
        self.number = 0

    def step(self, seconds: float, *steps: Step, **plan: object) -> None:
        self.number += 1
        made = Plan(self.number, steps, **plan)  # type: ignore[arg-type]
        begun, self.now = self.now, self.now + seconds
        sampled = [step.request_id for step in steps if step.samples]
        guessed = sum(step.drafts for step in steps)
        self.pacing.stepped(made, sampled, guessed, begun, self.now)

    def empty(self, seconds: float) -> None:
        """Nothing could run: the scheduler made an empty plan, and the loop waited."""
        self.number += 1
        self.now += seconds

    def ends(self, name: str) -> Pace:
        pace = self.pacing.left(name)
        assert pace is not None
        return pace


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_steps_that_only_decode_are_no_stall_however_they_vary(clock: Clock) -> None:
    clock.step(1.0, chunk("a", 8, samples=True))
    for seconds in (0.1, 0.1, 0.3, 0.1):
        clock.step(seconds, decode("a"))
    pace = clock.ends("a")
    assert (pace.gaps, pace.longest) == (4, pytest.approx(0.3))
    assert pace.mean == pytest.approx(0.15)
    assert pace.std == pytest.approx(0.0866, abs=1e-4)
    assert pace.p99 == pytest.approx(0.3, rel=0.01)
    assert pace.variation == pytest.approx(pace.std / pace.mean)
    assert pace.stalls == {}
    assert len(clock.pacing) == 0


def test_prompts_of_others_stall_by_what_they_add(clock: Clock) -> None:
    clock.step(1.0, chunk("a", 8, samples=True))
    clock.step(0.1, decode("a"))
    clock.step(0.5, decode("a"), chunk("b", 64))
    clock.step(0.3, decode("a"), chunk("b", 16, samples=True))
    assert clock.ends("a").stalls == {Cause.PREFILL: pytest.approx(0.4 + 0.2)}
    assert clock.ends("b").stalls == {}


def test_before_a_plain_step_was_seen_nobody_is_blamed(clock: Clock) -> None:
    clock.step(1.0, chunk("a", 8, samples=True))
    clock.step(0.5, decode("a"), chunk("b", 64))
    assert clock.ends("a").stalls == {}


def test_the_usual_step_is_that_of_the_nearest_size(clock: Clock) -> None:
    clock.step(1.0, *(chunk(name, 8, samples=True) for name in "abcd"))
    clock.step(0.4, *map(decode, "abcd"))
    clock.step(0.1, decode("a"))
    clock.step(0.6, *map(decode, "abc"), chunk("e", 8))
    assert clock.ends("b").stalls[Cause.PREFILL] == pytest.approx(0.2)


def test_a_preempted_request_waits_then_computes_again(clock: Clock) -> None:
    clock.step(1.0, chunk("a", 8, samples=True), chunk("b", 8, samples=True))
    clock.step(0.2, decode("a"), decode("b"))
    clock.step(0.2, decode("a"), preempted=("b",))
    clock.step(0.2, decode("a"))
    clock.step(0.7, chunk("b", 9))
    clock.step(0.3, chunk("b", 1, samples=True))
    pace = clock.ends("b")
    assert pace.stalls == {
        Cause.PREEMPTED: pytest.approx(0.4),
        Cause.RECOMPUTE: pytest.approx(1.0),
    }
    assert pace.longest == pytest.approx(1.4)
    assert clock.pacing.totals[Cause.RECOMPUTE] == pytest.approx(1.0)


def test_swapping_back_in_stalls_all_of_the_step(clock: Clock) -> None:
    clock.step(1.0, chunk("a", 8, samples=True), chunk("b", 8, samples=True))
    clock.step(0.2, decode("a"), decode("b"))
    clock.step(0.2, decode("a"), preempted=("b",))
    clock.step(0.5, decode("a"), decode("b"), swap_in=(Move(0, 1),))
    assert clock.ends("a").stalls == {Cause.SWAP: pytest.approx(0.3)}
    assert clock.ends("b").stalls == {
        Cause.PREEMPTED: pytest.approx(0.2),
        Cause.SWAP: pytest.approx(0.3),
    }


def test_standing_still_in_its_slot_is_a_want_of_memory(clock: Clock) -> None:
    clock.step(1.0, chunk("a", 8, samples=True), chunk("b", 8, samples=True))
    clock.step(0.2, decode("a"), decode("b"))
    clock.step(0.2, decode("a"))
    clock.step(0.2, decode("a"), decode("b"))
    assert clock.ends("b").stalls == {Cause.MEMORY: pytest.approx(0.2)}
    assert clock.ends("a").stalls == {}


def test_time_in_which_nothing_could_run_counts(clock: Clock) -> None:
    clock.step(1.0, chunk("a", 8, samples=True), chunk("b", 8, samples=True))
    clock.step(0.2, decode("a"), preempted=("b",))
    clock.ends("a")
    clock.empty(5.0)
    clock.step(0.2, decode("b"))
    assert clock.ends("b").stalls == {Cause.PREEMPTED: pytest.approx(5.2)}


def test_several_tokens_of_one_step_have_one_gap(clock: Clock) -> None:
    clock.step(1.0, chunk("a", 8, samples=True))
    clock.step(0.2, Step("a", 8, 4, (0,), True, drafts=3))
    assert clock.ends("a").gaps == 1


def test_who_got_no_token_has_no_pace(clock: Clock) -> None:
    clock.step(1.0, chunk("a", 8))
    assert clock.pacing.left("a") is None
    assert clock.pacing.left("nobody") is None


def test_stalls_never_exceed_the_gaps_they_are_in() -> None:
    """A scheduler short of memory, driven until all are done: each second is blamed once."""
    config = SchedulerConfig(4, 16, 4, 10, host_blocks=4, cost=CostModel(1.0, 0.1, 0.05, swap=0.01))
    scheduler, pacing, now = Scheduler(config, policies.make("fcfs")), Pacing(), 0.0
    for i in range(6):
        scheduler.add(Request(f"r{i}", now, 6 + i), now)
    paces: list[Pace] = []
    while scheduler.has_work:
        plan = scheduler.schedule(now)
        begun, now = now, now + 1.0 + 0.1 * plan.tokens + 0.2 * plan.swapped_blocks
        sampled = [step.request_id for step in plan.steps if step.samples]
        pacing.stepped(plan, sampled, 0, begun, now)
        done = {
            name: FinishReason.STOP
            for name in sampled
            if (request := scheduler.get(name)) and request.output_tokens + 1 == 12
        }
        paces += [pacing.left(r.id) or Pace() for r in scheduler.commit(plan, done, now)]
    assert scheduler.stats.preemptions > 0
    assert len(paces) == 6
    assert len(pacing) == 0
    for pace in paces:
        assert sum(pace.stalls.values()) <= pace.gaps * pace.mean + 1e-9
    assert pacing.totals[Cause.PREEMPTED] > 0
    assert sum(pacing.totals.values()) == pytest.approx(
        sum(sum(pace.stalls.values()) for pace in paces)
    )
