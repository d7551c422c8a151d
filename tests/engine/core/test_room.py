"""Who waits, who is next, who is refused: a room as the scheduler uses it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane, LaneConfig, Slo, max_min
from engine.core.policies.base import Starvation, Static
from engine.core.request import Request
from engine.core.room import QueueFull, Room
from ranker.types import FinishReason


class Given(Static):
    name = "given"

    def __init__(self, starvation=None):
        self.starvation = starvation

    def key(self, request):
        raise AssertionError("a room never asks for keys")


def room_of(*configs, starvation=None, fairness=None, max_waiting=1000):
    configs = configs or (LaneConfig("only"),)
    lanes = [Lane(config, Given(starvation)) for config in configs]
    return Room(lanes, fairness, max_waiting)


def push(room, name, key=0.0, *, now=0.0, step=0, arrival=None, prompt=1, lane="", tenant=""):
    arrival = now if arrival is None else arrival
    request = Request(name, arrival, prompt, tenant=tenant, lane=lane)
    room.push(request, ((key,), int(name)), now, step)
    return request


def serve(room, now=0.0, output=0):
    """Admit the head and end it."""
    head = room.head(now)
    room.pop(head, now)
    head.output_tokens, head.finish_reason = output, FinishReason.STOP
    room.settle(head, 0.0)
    return head


# -- configuration ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "lane.name"),
        ({"share": 0.0}, "share"),
        ({"share": float("inf")}, "share"),
        ({"max_wait": 0.0}, "max_wait"),
        ({"max_waiting": 0}, "max_waiting"),
    ],
)
def test_lanes_are_checked(fields, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LaneConfig(**{"name": "chat", **fields})


@pytest.mark.parametrize("name", ["ttft", "tpot", "e2el"])
def test_an_objective_bounds_what_it_names(name):
    times = {"ttft": 1.0, "tpot": 0.1, "e2el": 5.0}
    assert Slo().met(**times)
    assert Slo(**{name: times[name]}).met(**times)
    assert not Slo(**{name: times[name] / 2}).met(**times)
    with pytest.raises(ValueError, match=re.escape(f"slo.{name}")):
        Slo(**{name: 0.0})


def test_an_answer_of_one_token_has_no_time_per_token():
    assert Slo(tpot=0.001).met(1.0, None, 1.0)


def test_a_room_needs_lanes_of_different_names_and_space():
    with pytest.raises(ValueError, match="at least one lane"):
        Room([], None, 1)
    with pytest.raises(ValueError, match="different names"):
        room_of(LaneConfig("a"), LaneConfig("a"))
    with pytest.raises(ValueError, match="max_waiting"):
        room_of(max_waiting=0)


def test_requests_name_their_lane_or_take_the_first():
    room = room_of(LaneConfig("chat"), LaneConfig("batch"))
    assert room.lane_of(Request("0", 0.0, 1)).name == "chat"
    assert room.lane_of(Request("0", 0.0, 1, lane="batch")).name == "batch"
    with pytest.raises(ValueError, match="chat, batch, got 'bulk'"):
        room.lane_of(Request("0", 0.0, 1, lane="bulk"))


# -- coming and going ------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=200))
def test_serves_by_place_whoever_is_rekeyed_or_removed(entries):
    room = room_of()
    places = {}
    for number, (key, rekeyed, removed) in enumerate(entries):
        request = push(room, str(number), float(key))
        room.rekey(request, ((float(rekeyed),), number))
        if removed:
            room.remove(request)
        else:
            places[request] = (rekeyed, number)
        room.check_integrity()
    assert [serve(room) for _ in places] == sorted(places, key=places.__getitem__)
    assert room.head(0.0) is None
    assert len(room) == 0


def test_refuses_twins_and_strangers():
    room = room_of()
    request = push(room, "1")
    stranger = Request("1", 0.0, 1)
    assert request in room
    assert stranger not in room
    with pytest.raises(ValueError, match="'1' waits already"):
        push(room, "1")
    for change in (room.remove, lambda r: room.pop(r, 0.0), lambda r: room.rekey(r, ((0.0,), 1))):
        with pytest.raises(KeyError):
            change(stranger)
    assert list(room) == [request]


def test_a_place_that_changes_back_is_one_place():
    room = room_of()
    first, second = push(room, "1", 1.0), push(room, "2", 2.0)
    room.rekey(first, ((3.0,), 1))
    room.rekey(first, ((1.0,), 1))
    assert [serve(room), serve(room)] == [first, second]
    assert room.head(0.0) is None


# -- lanes -----------------------------------------------------------------------------------


def test_precedence_is_strict():
    room = room_of(LaneConfig("batch", precedence=1), LaneConfig("chat", precedence=0))
    for number in range(10):
        push(room, str(number), lane="batch")
    for number in range(10, 20):
        push(room, str(number), lane="chat")
    assert [serve(room).lane for _ in range(20)] == ["chat"] * 10 + ["batch"] * 10


def test_busy_lanes_are_served_by_share_and_idle_share_is_lent():
    room = room_of(LaneConfig("chat", share=3.0), LaneConfig("batch", share=1.0))
    for number in range(600):
        push(room, str(number), prompt=10, lane=("chat", "batch")[number % 2])
    served = [serve(room, output=5).lane for _ in range(400)]
    assert served.count("chat") == 300
    assert [serve(room).lane for _ in range(200)] == ["batch"] * 200
    # Having been alone, batch owes nothing and is owed nothing.
    for number in range(600, 1000):
        push(room, str(number), prompt=10, lane=("chat", "batch")[number % 2])
    served = [serve(room, output=5).lane for _ in range(100)]
    assert served.count("chat") in (74, 75, 76)


def test_a_request_takes_its_wait_but_not_its_place_to_another_lane():
    room = room_of(LaneConfig("chat", max_wait=10.0), LaneConfig("batch"))
    request = push(room, "0", lane="batch")
    room.remove(request)
    request.lane = "chat"
    room.push(request, ((5.0,), 0), 8.0, 0)
    push(room, "1", 0.0, now=8.0, lane="chat")
    assert room.waiting_in("chat") == 2
    assert room.next_event(8.0) == 10.0
    assert room.head(10.0) is request


def test_slots_are_divided_among_those_who_want_them():
    chat, batch = LaneConfig("chat", share=3.0), LaneConfig("batch", share=1.0)
    room = room_of(LaneConfig("vip", precedence=-1), chat, batch, LaneConfig("idle", share=9.0))
    assert room.share_of_slots("chat", 16) == 0.0
    for number in range(100):
        push(room, str(number), lane=("chat", "batch")[number % 2])
    assert room.share_of_slots("chat", 16) == 12.0
    assert room.share_of_slots("batch", 16) == 4.0
    for number in range(100, 108):
        push(room, str(number), lane="vip")
    assert room.share_of_slots("vip", 16) == 8.0
    assert room.share_of_slots("chat", 16) == 6.0
    assert room.share_of_slots("idle", 16) == 0.0
    for _ in range(8):
        room.pop(room.head(0.0), 0.0)
    assert room.running_in("vip") == room.share_of_slots("vip", 16) == 8


def test_a_running_request_counts_where_it_moved():
    room = room_of(LaneConfig("a"), LaneConfig("b"))
    request = push(room, "0", lane="a")
    room.pop(request, 0.0)
    request.lane = "b"
    room.moved(request)
    assert (room.running_in("a"), room.running_in("b")) == (0, 1)
    room.check_integrity()
    request.finish_reason = FinishReason.STOP
    room.settle(request, 0.0)
    assert room.running_in("b") == 0
    assert (room.lane_virtual("a"), room.lane_virtual("b")) == (1.0, 0.0)


weights = st.floats(0.1, 10.0)


@given(st.floats(0.0, 100.0), st.lists(st.tuples(st.floats(0.0, 50.0), weights), min_size=1))
def test_max_min_gives_all_that_is_wanted_and_nobody_envies(total, lanes):
    demands, shares = [demand for demand, _ in lanes], [share for _, share in lanes]
    given = max_min(total, demands, shares)
    assert sum(given) == pytest.approx(min(total, sum(demands)))
    for got, demand, share in zip(given, demands, shares, strict=True):
        assert 0.0 <= got <= demand
        if got < demand - 1e-9:
            richest = max(other / weight for other, weight in zip(given, shares, strict=True))
            assert got / share >= richest - 1e-9


# -- waiting too long ------------------------------------------------------------------------


def test_the_overdue_go_first_whatever_lane_tenant_or_place():
    room = room_of(
        LaneConfig("chat", max_wait=60.0),
        LaneConfig("batch", precedence=1, max_wait=30.0),
        fairness=FairnessConfig(),
    )
    old = push(room, "0", 99.0, lane="batch", tenant="heavy")
    older = push(room, "1", 99.0, arrival=-40.0, lane="chat", tenant="heavy")
    new = push(room, "2", now=15.0, lane="chat", tenant="light")
    assert list(room.heads(15.0)) == [new, old]
    assert room.next_event(15.0) == 20.0
    assert list(room.heads(20.0)) == [older, old]
    assert list(room.heads(30.0)) == [older, old]
    room.pop(older, 30.0)
    assert list(room.heads(30.0)) == [old, new]


def test_a_wait_begins_with_arrival_and_again_with_preemption():
    room = room_of(LaneConfig("only", max_wait=10.0))
    request = push(room, "0", 5.0, arrival=0.0, now=3.0)
    assert room.next_event(3.0) == 10.0
    room.pop(request, 4.0)
    room.push(request, ((5.0,), 0), 20.0, 7)
    push(room, "1", 0.0, now=25.0)
    assert room.head(29.0) is not request
    assert room.next_event(29.0) == 30.0
    assert room.head(30.0) is request


def test_starvation_in_steps_is_told_once_per_wait():
    room = room_of(starvation=Starvation(steps=3))
    first, second = push(room, "0", step=0), push(room, "1", step=1)
    assert room.steps_to_starvation(0.0, 1) == 2
    assert room.starved(0.0, 2) == []
    assert room.starved(0.0, 3) == [first]
    room.rekey(first, ((-1.0,), 0))
    assert room.starved(0.0, 3) == []
    assert room.steps_to_starvation(0.0, 3) == 1
    room.pop(second, 0.0)
    assert room.steps_to_starvation(0.0, 3) is None
    room.pop(first, 0.0)
    room.push(first, ((0.0,), 0), 0.0, 10)
    assert room.starved(0.0, 12) == []
    assert room.starved(0.0, 13) == [first]
    assert room.next_event(0.0) is None


def test_starvation_in_seconds_is_an_event():
    room = room_of(starvation=Starvation(seconds=2.0))
    first = push(room, "0", now=1.0)
    second = push(room, "1", now=1.5)
    assert room.next_event(1.5) == 3.0
    assert room.next_event(3.2) == 3.5, "an event that was not asked about is past"
    assert room.steps_to_starvation(2.9, 0) is None
    assert room.steps_to_starvation(3.2, 0) == 0
    assert room.starved(3.2, 0) == [first]
    assert room.starved(9.0, 0) == [second]
    assert room.next_event(9.0) is None
    assert room.steps_to_starvation(0.0, 0) is None


# -- a full room -----------------------------------------------------------------------------


def test_each_lane_has_its_bound_within_that_of_the_room():
    room = room_of(LaneConfig("chat"), LaneConfig("batch", max_waiting=2), max_waiting=5)
    for number in range(2):
        push(room, str(number), lane="batch")
    with pytest.raises(QueueFull, match=r"lane 'batch' is full: 2 requests wait already$") as full:
        room.check_room(Request("9", 0.0, 1, lane="batch"), 0.0)
    assert full.value.lane == "batch"
    assert full.value.retry_after is None
    for number in range(2, 5):
        room.check_room(Request("9", 0.0, 1), 0.0)
        push(room, str(number), lane="chat")
    with pytest.raises(QueueFull, match="lane 'chat' is full: 5 requests"):
        room.check_room(Request("9", 0.0, 1), 0.0)


def test_when_the_room_fills_up_later_precedence_is_refused_first():
    lanes = [LaneConfig(name, precedence=i) for i, name in enumerate(("chat", "mail", "batch"))]
    room = room_of(*lanes, max_waiting=40)
    refused = {}
    for number in range(40):
        for lane in lanes:
            try:
                room.check_room(Request("x", 0.0, 1, lane=lane.name), 0.0)
            except QueueFull:
                refused.setdefault(lane.name, number)
        push(room, str(number), lane="chat")
    assert refused == {"batch": 36, "mail": 38}
    with pytest.raises(QueueFull):
        room.check_room(Request("x", 0.0, 1, lane="chat"), 0.0)


def test_the_hint_to_retry_follows_the_rate_at_which_the_lane_is_served():
    room = room_of(max_waiting=100)
    for number in range(120):
        push(room, str(number))
    for admitted in range(20):
        room.pop(room.head(0.0), admitted * 0.5)
    with pytest.raises(QueueFull, match=re.escape("try again in 5.0 s")) as full:
        room.check_room(Request("x", 10.0, 1), 10.0)
    # One leaves every half second; a tenth of a hundred that wait does in five.
    assert full.value.retry_after == pytest.approx(5.0)


# -- integrity -------------------------------------------------------------------------------


def test_integrity_notices_what_is_lost():
    room = room_of(LaneConfig("a"), LaneConfig("b"), fairness=FairnessConfig())
    first, second = push(room, "0", lane="a"), push(room, "1", lane="b")
    room.check_integrity()
    lost = room._waiting.pop("0")
    with pytest.raises(RuntimeError, match="holds another's"):
        room.check_integrity()
    room._waiting["0"] = lost
    room.pop(first, 0.0)
    room._lines["a"].running += 1
    with pytest.raises(RuntimeError, match="who runs"):
        room.check_integrity()
    room._lines["a"].running -= 1
    room._lines["b"]._tenants._by_rank.discard(("", False))
    with pytest.raises(RuntimeError, match="parked and ranked"):
        room.check_integrity()
    assert second in room
