"""What series come to for who acts on them: by order alone, and by what counts still."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from drift.acting.config import ActConfig
from drift.acting.standing import Standing, standings
from drift.acting.trust import Trust
from drift.config import MonitorConfig
from drift.detectors.concordance_cusum import ChartConfig
from drift.efficiency import Shares, Worth
from drift.key import Key
from drift.monitor import Monitor
from drift.reference import Reference
from drift.states import State
from drift.valuer import Known, Valued, Valuer
from ranker.types import Outcome

CONFIG = MonitorConfig(chart=ChartConfig(streams=16, length=2048))
KEY = Key("m", "ranker", "1")

Stream = Callable[..., list[Outcome]]


@pytest.fixture(scope="module")
def reference() -> Reference:
    from tests.drift.conftest import make_stream

    return Reference.learn(make_stream(1200, 0.5, 99), CONFIG)


def seen(monitor: Monitor, outcomes: Sequence[Outcome]) -> Standing:
    """Where the version stands after more ``outcomes``."""
    for outcome in outcomes:
        monitor.update(outcome)
    return next(one for one in standings(monitor) if one.key == KEY)


def lost(outcomes: Sequence[Outcome], share: float) -> list[Outcome]:
    """That share of their forecasts never came."""
    return [
        replace(outcome, forecast=None) if (i * share) % 1.0 < share else outcome
        for i, outcome in enumerate(outcomes)
    ]


def test_forecasts_that_never_came_cost_the_others_no_trust(
    stream: Stream, reference: Reference
) -> None:
    monitor, trust, at = Monitor(CONFIG, {KEY: reference}), Trust(ActConfig()), 0
    states = set()
    for number, (share, count) in enumerate([(0.0, 600), (0.6, 800), (0.95, 800), (0.0, 1500)]):
        rows = lost(stream(count, 0.5, 10 + number, start=at), share)
        at += count
        for start in range(0, count, 100):
            one = seen(monitor, rows[start : start + 100])
            states.add(one.state)
            assert one.of_order is State.OK
            assert trust.update([one]) == []
    assert states == set(State), "the monitor goes through all of them, there and back"


def test_lengths_that_doubled_are_no_loss_of_order(stream: Stream, reference: Reference) -> None:
    monitor = Monitor(CONFIG, {KEY: reference})
    seen(monitor, stream(600, 0.5, 21))
    longer = [
        replace(o, output_tokens=2 * o.output_tokens) for o in stream(500, 0.5, 22, start=600)
    ]
    one = seen(monitor, longer)
    assert (one.state, one.of_order) == (State.WARN, State.OK)


def test_order_that_is_lost_beside_missing_forecasts_is_lost(
    stream: Stream, reference: Reference
) -> None:
    monitor, trust = Monitor(CONFIG, {KEY: reference}), Trust(ActConfig())
    seen(monitor, stream(600, 0.5, 31))
    one = seen(monitor, lost(stream(400, 0.5, 32, start=600), 0.6))
    assert (one.state, one.of_order) == (State.DEGRADED, State.OK)
    one = seen(monitor, lost(stream(1200, 0.0, 33, start=1000), 0.6))
    assert one.of_order >= State.DEGRADED
    trust.update([one])
    assert trust.of(KEY, "", "") <= ActConfig().degraded


def valued(at: float, share: float) -> Valued:
    return Valued(at, 500, Worth(Shares(share, share), (share, share), (share, share), 1.0))


def test_a_replay_of_another_window_or_of_before_the_state_says_nothing(
    stream: Stream, reference: Reference
) -> None:
    monitor = Monitor(CONFIG, {KEY: reference})
    whole = seen(monitor, stream(600, 0.5, 41))
    outcomes = stream(1000, 0.0, 42, start=600)
    whole = seen(monitor, outcomes)
    assert whole.state >= State.DEGRADED
    looks = monitor.history(KEY)
    entered = next(
        look for look, before in reversed(list(zip(looks[1:], looks, strict=False)))
        if look.state is whole.state and before.state is not whole.state
    )  # fmt: skip
    oldest = max(entered.arrival, monitor.recent(KEY)[0].arrival)

    def worth(*at: float) -> float | None:
        valuer = Valuer()
        values = tuple(valued(one, 0.25) for one in at)
        valuer.restore({KEY: Known(values, (0.5,), None)})
        return next(one for one in standings(monitor, valuer) if one.key == KEY).worth

    assert worth(oldest) == worth(oldest - 400.0, outcomes[-1].arrival) == 0.5
    assert worth(oldest - 1.0) == worth() == whole.worth, "tau-b of the window instead"
    assert whole.worth is not None
    assert whole.worth < 0.3
