"""What changes under a request that is held: its lane, its forecast, what others computed."""

import pytest

from engine.core.config import AdmissionConfig
from engine.core.lanes import Lane, LaneConfig
from engine.core.policies import make
from engine.core.policies.base import Starvation, Static
from engine.core.request import Request
from engine.core.scheduler import Scheduler, SchedulerConfig
from ranker.types import FinishReason
from tests.engine.core.policy_parts import point


class Diary(Static):
    name = "diary"

    def __init__(self, starvation=None):
        self.starvation = starvation
        self.notes = []

    def arrived(self, request):
        self.notes.append(("arrived", request.id))

    def key(self, request):
        return (0.0,)

    def starved(self, request):
        self.notes.append(("starved", request.id))

    def observe(self, request, now):
        self.notes.append(("ended", request.id))


def build(lanes, **limits):
    defaults = {
        "max_num_seqs": 2,
        "max_num_batched_tokens": 64,
        "block_size": 4,
        "num_blocks": 20,
    }
    return Scheduler(SchedulerConfig(**{**defaults, **limits}), lanes)


def step(scheduler, finished=(), now=0.0):
    plan = scheduler.schedule(now)
    scheduler.commit(plan, dict.fromkeys(finished, FinishReason.STOP), now)
    scheduler.check_integrity()
    return {each.request_id for each in plan.steps}


def two_lanes(first, second):
    return [Lane(LaneConfig("a"), first), Lane(LaneConfig("b"), second)]


def test_a_request_without_a_key_is_not_held():
    scheduler = build(make("sjf"))
    with pytest.raises(ValueError, match="true_tokens"):
        scheduler.add(Request("x", 0.0, 4))
    assert not scheduler.has_work
    scheduler.check_integrity()
    scheduler.add(Request("x", 0.0, 4, true_tokens=3))


@pytest.mark.parametrize("runs", [True, False])
def test_a_move_that_fails_changes_nothing(runs):
    scheduler = build(two_lanes(make("fcfs"), make("sjf")))
    scheduler.add(Request("x", 0.0, 4))
    if runs:
        step(scheduler)
    for lane, message in (("b", "true_tokens"), ("c", "lane")):
        with pytest.raises(ValueError, match=message):
            scheduler.move("x", lane, 0.0)
        scheduler.check_integrity()
        assert scheduler.get("x").lane == ""
    assert step(scheduler) == {"x"}


@pytest.mark.parametrize("runs", [True, False])
def test_each_policy_hears_of_a_request_once_however_often_it_moves(runs):
    first, second = Diary(), Diary()
    scheduler = build(two_lanes(first, second))
    scheduler.add(Request("x", 0.0, 4))
    if runs:
        step(scheduler)
    for lane in "baba":
        scheduler.move("x", lane, 0.0)
        scheduler.check_integrity()
    step(scheduler, ["x"]) if runs else scheduler.abort("x", 0.0)
    assert first.notes == second.notes == [("arrived", "x"), ("ended", "x")]


def test_a_forecast_that_comes_late_lets_one_in_that_memory_kept_out():
    scheduler = build(make("fcfs"), admission=AdmissionConfig("predicted"))
    scheduler.add(Request("a", 0.0, 20, point(30)))
    scheduler.add(Request("b", 0.0, 20, point(40)))
    assert step(scheduler) == {"a"}, "together they are reckoned to outgrow 80 tokens"
    assert step(scheduler) == {"a"}
    scheduler.reforecast("b", point(2))
    assert step(scheduler) == {"a", "b"}


def test_one_that_waits_for_memory_comes_in_once_others_computed_its_prompt():
    scheduler = build(make("fcfs"), num_blocks=12, admission=AdmissionConfig("off"))
    hashes = tuple(range(10))
    scheduler.add(Request("a", 0.0, 33, block_hashes=hashes))
    scheduler.add(Request("b", 0.0, 33, block_hashes=hashes))
    # Nine blocks each, of which they share eight once a has computed these.
    assert [step(scheduler) for _ in range(3)] == [{"a"}, {"a", "b"}, {"a", "b"}]


def test_a_wait_that_became_too_long_between_steps_is_not_skipped():
    diary = Diary(Starvation(seconds=5.0))
    scheduler = build(diary, max_num_seqs=1)
    scheduler.add(Request("a", 0.0, 4))
    step(scheduler)
    scheduler.add(Request("b", 0.0, 4))
    assert scheduler.quiet_steps(9, 4.0) == 9
    assert scheduler.quiet_steps(9, 6.0) == 0
    step(scheduler, now=6.0)
    assert diary.notes[-1] == ("starved", "b")
    assert scheduler.quiet_steps(9, 6.0) == 9
