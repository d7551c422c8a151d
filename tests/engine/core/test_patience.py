"""Patience end to end: a scheduler tells the policy who has waited long enough, as it says then."""

import pytest

from engine.core.config import SchedulerConfig
from engine.core.policies.base import Starvation, Static
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from ranker.types import FinishReason


class Impatient(Static):
    """Later arrivals first, until somebody has waited for as long as is said when it arrives."""

    name = "impatient"

    def __init__(self, seconds):
        self.starvation = Starvation(seconds=seconds)
        self.overdue = set()

    def key(self, request):
        return (0.0, request.arrival) if request.id in self.overdue else (1.0, -request.arrival)

    def starved(self, request):
        self.overdue.add(request.id)


def engine(seconds):
    policy = Impatient(seconds)
    return policy, Scheduler(SchedulerConfig(1, 64, 16, 64), policy)


def admitted(scheduler, now):
    """One request runs for one step and ends; who?"""
    plan = scheduler.schedule(now)
    (ended,) = scheduler.commit(plan, {plan.steps[0].request_id: FinishReason.STOP}, now)
    return ended.id


def test_a_wait_keeps_the_patience_that_it_began_with():
    policy, scheduler = engine(10.0)
    scheduler.add(Request("old", 0.0, 4), now=0.0)
    policy.starvation = Starvation(seconds=2.0)
    for name, arrival in (("mid", 1.0), ("new", 2.5)):
        scheduler.add(Request(name, arrival, 4), now=arrival)
    # At 3.5 only "mid" has waited as long as it was told to; at 9.9 "old" has not.
    assert scheduler.next_event(2.5) == pytest.approx(3.0)
    assert admitted(scheduler, 3.5) == "mid"
    assert admitted(scheduler, 3.6) == "new"
    assert admitted(scheduler, 3.7) == "old"


def test_the_longest_overdue_goes_first():
    policy, scheduler = engine(1.0)
    for i in range(4):
        scheduler.add(Request(str(i), float(i), 4), now=float(i))
    assert [admitted(scheduler, 3.5) for _ in range(4)] == ["0", "1", "2", "3"]
    assert policy.overdue == {"0", "1", "2"}, "3 had waited for half a second"
