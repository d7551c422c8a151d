"""Who takes whose slot, and who does not."""

from engine.core.config import AdmissionConfig
from engine.core.lanes import Lane, LaneConfig
from engine.core.policies import make
from engine.core.policies.base import Static
from engine.core.request import Request
from engine.core.scheduler import Scheduler, SchedulerConfig
from tests.engine.core.policy_parts import point


class LeftToCompute(Static):
    """Fewest tokens to compute first: a key that falls with each chunk of a prompt."""

    name = "left_to_compute"
    preempts = True

    def key(self, request):
        return (float(request.pending_tokens),)


def build(lanes, **limits):
    defaults = {
        "max_num_seqs": 1,
        "max_num_batched_tokens": 8,
        "block_size": 4,
        "num_blocks": 20,
        "admission": AdmissionConfig("off"),
    }
    return Scheduler(SchedulerConfig(**{**defaults, **limits}), lanes)


def steps(scheduler, count=1):
    """Run ``count`` steps; the last plan."""
    for _ in range(count):
        plan = scheduler.schedule(0.0)
        scheduler.commit(plan, {}, 0.0)
        scheduler.check_integrity()
    return plan


def test_a_prompt_that_is_nearly_done_is_not_stopped_for_the_key_it_began_with():
    scheduler = build(LeftToCompute())
    scheduler.add(Request("a", 0.0, 28))
    steps(scheduler, 3)
    scheduler.add(Request("b", 0.0, 20))  # less than a had, more than the 4 it has left
    assert steps(scheduler).preempted == ()


def test_a_prompt_that_fills_the_step_is_let_through():
    scheduler = build(LeftToCompute())
    scheduler.add(Request("a", 0.0, 28))
    steps(scheduler)
    scheduler.add(Request("b", 0.0, 2))
    assert [steps(scheduler).preempted for _ in range(3)] == [(), (), ("a",)]


def test_to_ask_for_quiet_steps_changes_nothing():
    scheduler = build(make("srpt"), max_num_batched_tokens=64)
    scheduler.add(Request("a", 0.0, 8, true_tokens=60))
    steps(scheduler, 5)
    scheduler.add(Request("b", 0.0, 8, true_tokens=90))
    state = scheduler._state
    before = dict(state.places), dict(state.rekey_at), list(state.running)
    assert scheduler.quiet_steps(9, 0.0) == 9
    assert before == (dict(state.places), dict(state.rekey_at), list(state.running))
    scheduler.add(Request("c", 0.0, 8, true_tokens=30))
    assert scheduler.quiet_steps(9, 0.0) == 0, "c takes a's slot"
    assert steps(scheduler).preempted == ("a",)


def test_while_somebody_waits_for_memory_nobody_behind_it_changes_places():
    """A slot is free; whoever came in elsewhere would take the memory it waits for."""
    lanes = [
        Lane(LaneConfig("first"), make("fcfs")),
        Lane(LaneConfig("second", precedence=1), make("srpt")),
    ]
    scheduler = build(lanes, max_num_seqs=3, max_num_batched_tokens=80)
    scheduler.add(Request("long", 0.0, 20, true_tokens=50, lane="second"))
    steps(scheduler, 2)
    scheduler.add(Request("large", 1.0, 64, true_tokens=9, lane="first"))
    scheduler.add(Request("short", 2.0, 8, true_tokens=2, lane="second"))
    for _ in range(30):
        plan = steps(scheduler)
        assert [step.request_id for step in plan.steps] == ["long"]
        assert plan.preempted == ()


def test_nobody_is_stopped_for_one_that_cannot_come_in_even_then():
    """What a paused request shares with the newcomer alone is no gain: it was counted as found."""
    scheduler = build(make("srpt"), max_num_seqs=2, max_num_batched_tokens=64, num_blocks=10)
    shared = tuple(range(100, 105))
    scheduler.add(Request("a", 0.0, 20, point(9), true_tokens=40, block_hashes=shared))
    scheduler.add(Request("b", 0.0, 8, point(9), true_tokens=20))
    steps(scheduler)
    # Five blocks of a and five of its own: b leaves too few, although a's would be free.
    newcomer = Request("c", 0.0, 39, point(9), true_tokens=1, block_hashes=shared)
    scheduler.add(newcomer)
    memory = scheduler._state.memory
    (a, b) = (scheduler.get(name) for name in "ab")
    need, sharing = memory.admission_need(newcomer), len(shared)
    assert need == 10 - sharing
    assert memory.obtainable(newcomer, [a]) == memory.free + len(a.block_table) - sharing
    assert memory.obtainable(newcomer, [a]) < need <= memory.free + memory.exclusive(a)
    for _ in range(4):
        assert steps(scheduler).preempted == ()
    assert scheduler.get("b") is b


def test_equal_keys_never_change_places():
    scheduler = build(make("priority:preempts=yes"), max_num_seqs=2, max_num_batched_tokens=64)
    for i in range(6):
        scheduler.add(Request(str(i), 0.0, 4, priority=1))
    for _ in range(10):
        assert {step.request_id for step in steps(scheduler).steps} == {"0", "1"}
