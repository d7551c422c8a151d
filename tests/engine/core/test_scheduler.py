"""What the scheduler promises, one promise per test."""

import pytest

from engine.core.config import AdmissionConfig
from engine.core.policies import Fcfs, make
from engine.core.policies.base import Static
from engine.core.request import Request, Status
from engine.core.scheduler import QueueFull, Scheduler, SchedulerConfig
from ranker.types import FinishReason

EAGER = AdmissionConfig(watermark=0.0)


def build(policy=None, **limits):
    defaults = {"max_num_seqs": 4, "max_num_batched_tokens": 16, "block_size": 4, "num_blocks": 64}
    return Scheduler(SchedulerConfig(**{**defaults, **limits}), policy or Fcfs())


def drive(scheduler, lengths, limit=10_000):
    """Run to the end; the ids in order of ending, and the plans."""
    ended, plans = [], []
    while scheduler.has_work:
        plan = scheduler.schedule(float(len(plans)))
        assert plan, "work is left but nothing runs"
        plans.append(plan)
        done = {
            step.request_id: FinishReason.STOP
            for step in plan.steps
            if step.samples
            and scheduler.get(step.request_id).output_tokens + 1 == lengths[step.request_id]
        }
        ended += [request.id for request in scheduler.commit(plan, done, float(len(plans)))]
        scheduler.check_integrity()
        assert len(plans) < limit, "livelock"
    return ended, plans


def test_chunks_a_long_prompt_under_the_budget_beside_decodes():
    scheduler = build(max_num_batched_tokens=8)
    scheduler.add(Request("a", 0.0, 3))
    scheduler.commit(scheduler.schedule(0.0), {}, 0.0)
    scheduler.add(Request("b", 1.0, 20))
    shapes = []
    for now in range(1, 5):
        plan = scheduler.schedule(float(now))
        shapes.append([(s.request_id, s.start, s.tokens, s.samples) for s in plan.steps])
        scheduler.commit(plan, {}, float(now))
    assert shapes == [
        [("a", 3, 1, True), ("b", 0, 7, False)],
        [("a", 4, 1, True), ("b", 7, 7, False)],
        [("a", 5, 1, True), ("b", 14, 6, True)],
        [("a", 6, 1, True), ("b", 20, 1, True)],
    ]
    assert scheduler.get("b").output_tokens == 2


def test_block_tables_cover_the_positions_of_the_step():
    scheduler = build(block_size=4)
    scheduler.add(Request("a", 0.0, 7))
    for _ in range(6):
        plan = scheduler.schedule(0.0)
        (step,) = plan.steps
        assert len(step.block_table) * 4 >= step.start + step.tokens
        scheduler.commit(plan, {}, 0.0)


def test_a_prompt_that_can_never_fit_is_refused_up_front():
    scheduler = build(num_blocks=2, block_size=4)
    with pytest.raises(ValueError, match=r"prompt_tokens is 8.*hold 8 tokens"):
        scheduler.add(Request("a", 0.0, 8))
    scheduler.add(Request("b", 0.0, 7))
    assert drive(scheduler, {"b": 1})[0] == ["b"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request("a", 0.0, 0), "prompt_tokens"),
        (Request("a", float("nan"), 1), "arrival"),
        (Request("a", 0.0, 1, status=Status.FINISHED), "not new"),
    ],
)
def test_bad_requests_are_named(request_, message):
    with pytest.raises(ValueError, match=message):
        build().add(request_)


def test_an_id_is_used_once_at_a_time():
    scheduler = build()
    scheduler.add(Request("a", 0.0, 1))
    with pytest.raises(ValueError, match="in use"):
        scheduler.add(Request("a", 0.0, 1))
    scheduler.abort("a", 0.0)
    scheduler.add(Request("a", 1.0, 1))


def test_queue_bound():
    scheduler = build(max_waiting=2)
    scheduler.add(Request("a", 0.0, 1))
    scheduler.add(Request("b", 0.0, 1))
    with pytest.raises(QueueFull):
        scheduler.add(Request("c", 0.0, 1))
    scheduler.schedule(0.0)
    scheduler.add(Request("c", 0.0, 1))
    assert (scheduler.num_running, scheduler.num_waiting) == (2, 1)


def test_preempts_the_last_in_order_and_it_keeps_its_place():
    # Two blocks' worth each; both grow past it in a pool of five blocks of four.
    scheduler = build(num_blocks=5, max_num_seqs=2, admission=EAGER)
    for name in "abc":
        scheduler.add(Request(name, float(ord(name)), 8))
    ended, plans = drive(scheduler, {"a": 8, "b": 8, "c": 8})
    assert ended == ["a", "b", "c"], "c arrived last and must not overtake the preempted b"
    assert [plan.preempted for plan in plans if plan.preempted] == [("b",), ("c",)]
    for plan in plans:
        assert not set(plan.preempted) & {step.request_id for step in plan.steps}
        if plan.preempted:
            assert all(step.start > 0 for step in plan.steps), "admitted in a step that evicted"


def test_recompute_runs_prompt_and_output_again():
    scheduler = build(num_blocks=5, max_num_seqs=2, admission=EAGER)
    for name in "ab":
        scheduler.add(Request(name, float(ord(name)), 8))
    _, plans = drive(scheduler, {"a": 8, "b": 8})
    starts = [step for plan in plans for step in plan.steps if step.start == 0]
    assert [(step.request_id, step.tokens) for step in starts] == [("a", 8), ("b", 8), ("b", 9)]


def test_a_request_that_outgrows_all_memory_ends_with_length():
    scheduler = build(num_blocks=2, block_size=4)
    scheduler.add(Request("a", 0.0, 3))
    ended = []
    for now in range(20):
        plan = scheduler.schedule(float(now))
        if not plan:
            break
        ended += scheduler.commit(plan, {}, float(now))
    (request,) = ended
    assert request.finish_reason is FinishReason.LENGTH
    # Eight tokens fit; the ninth was sampled from the eighth.
    assert request.total_tokens == 9
    assert not scheduler.has_work
    assert scheduler.kv_usage == 0.0


def test_abort_between_schedule_and_commit():
    scheduler = build()
    scheduler.add(Request("a", 0.0, 4))
    scheduler.add(Request("b", 0.0, 4))
    plan = scheduler.schedule(0.0)
    assert scheduler.abort("a", 0.0).finish_reason is FinishReason.ABORT
    twin = Request("a", 1.0, 4)
    scheduler.add(twin)  # the same id again, before the old step is recorded
    ended = scheduler.commit(plan, {"a": FinishReason.STOP, "b": FinishReason.STOP}, 1.0)
    assert [request.id for request in ended] == ["b"]
    assert twin.output_tokens == 0
    scheduler.check_integrity()
    assert scheduler.abort("nobody", 0.0) is None


def test_a_failed_step_fails_what_it_carried_and_nothing_else():
    scheduler = build(max_num_seqs=1)
    scheduler.add(Request("a", 0.0, 4))
    scheduler.add(Request("b", 0.0, 4))
    plan = scheduler.schedule(0.0)
    (failed,) = scheduler.commit(plan, {"a": FinishReason.ERROR}, 0.0)
    assert (failed.output_tokens, failed.computed_tokens) == (0, 0)
    assert drive(scheduler, {"b": 2})[0] == ["b"]


def test_plans_alternate_with_commits():
    scheduler = build()
    assert not scheduler.schedule(0.0)
    scheduler.add(Request("a", 0.0, 4))
    plan = scheduler.schedule(0.0)
    with pytest.raises(RuntimeError, match="not been committed"):
        scheduler.schedule(0.0)
    scheduler.add(Request("b", 0.0, 4))
    with pytest.raises(ValueError, match="'b'"):
        scheduler.commit(plan, {"b": FinishReason.STOP}, 0.0)
    scheduler.commit(plan, {}, 0.0)
    with pytest.raises(ValueError, match="not the plan"):
        scheduler.commit(plan, {}, 0.0)


def test_equal_keys_do_not_ping_pong():
    class Same(Static):
        name = "same"
        preempts = True

        def key(self, request):
            return (0.0,)

    scheduler = build(Same(), num_blocks=8, max_num_seqs=4, admission=EAGER)
    lengths = {str(i): 15 for i in range(12)}
    requests = [Request(name, 0.0, 8) for name in lengths]
    for request in requests:
        scheduler.add(request)
    ended, plans = drive(scheduler, lengths)
    assert ended == sorted(lengths, key=int)
    # Half the memory that four need: some are evicted while they wait their turn, none for ever.
    assert max(request.preemptions for request in requests) <= 3
    assert len(plans) <= 12 * 15


def test_first_scheduled_survives_preemption():
    scheduler = build(num_blocks=5, max_num_seqs=2, admission=EAGER)
    request = Request("b", 1.0, 8)
    scheduler.add(Request("a", 0.0, 8))
    scheduler.add(request)
    drive(scheduler, {"a": 8, "b": 8})
    assert request.preemptions == 1
    assert request.first_scheduled == 0.0


def test_skip_is_what_single_steps_do():
    def fresh():
        scheduler = build(num_blocks=16, max_num_seqs=2)
        for name in "abc":
            scheduler.add(Request(name, 0.0, 5))
        scheduler.commit(scheduler.schedule(0.0), {}, 0.0)
        return scheduler

    skipped, stepped = fresh(), fresh()
    assert skipped.quiet_steps(9, 0.0) == 9
    skipped.skip(9, 0.0)
    for _ in range(9):
        stepped.commit(stepped.schedule(0.0), {}, 0.0)
    for one, other in zip(skipped.running, stepped.running, strict=True):
        assert one.computed_tokens == other.computed_tokens
        assert one.output_tokens == other.output_tokens
        assert len(one.block_table) == len(other.block_table)
    skipped.check_integrity()
    with pytest.raises(ValueError, match="quiet_steps"):
        skipped.skip(1000, 0.0)


def test_nothing_to_skip_while_somebody_could_come_in():
    scheduler = build(max_num_seqs=2)
    scheduler.add(Request("a", 0.0, 5))
    assert scheduler.quiet_steps(5, 0.0) == 0, "not prefilled"
    scheduler.commit(scheduler.schedule(0.0), {}, 0.0)
    assert scheduler.quiet_steps(5, 0.0) == 5
    scheduler.add(Request("b", 0.0, 5))
    assert scheduler.quiet_steps(5, 0.0) == 0, "b can be admitted"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_num_seqs", 0),
        ("max_num_batched_tokens", 3),
        ("block_size", 0),
        ("num_blocks", 0),
        ("max_waiting", 0),
    ],
)
def test_config_names_the_field(field, value):
    with pytest.raises(ValueError, match=field):
        build(**{field: value})


def test_sjf_is_refused_when_serving_and_without_lengths():
    with pytest.raises(ValueError, match="sjf needs true lengths"):
        make("sjf", serving=True)
    with pytest.raises(ValueError, match="true_tokens"):
        build(make("sjf")).add(Request("a", 0.0, 1))


def test_a_place_in_the_queue_counts_those_of_the_lane_that_go_before():
    scheduler = build(make("priority"), max_num_seqs=1)
    for name, priority in (("a", 3), ("b", 1), ("c", 2)):
        scheduler.add(Request(name, 0.0, 4, priority=priority))
    assert [scheduler.position(name) for name in "abc"] == [2, 0, 1]
    scheduler.commit(scheduler.schedule(0.0), {}, 0.0)
    assert [scheduler.position(name) for name in "abc"] == [1, 0, 0]
    assert scheduler.position("nobody") is None
