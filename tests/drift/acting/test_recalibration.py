"""Quantiles follow what answers are like while the ranker's own do not, and no longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from drift.acting.acting import Acting
from drift.acting.config import ActConfig, RecalibrateConfig
from drift.acting.recalibration import Recalibration
from drift.acting.refit import refit, since_change
from drift.acting.standing import Standing, standings
from drift.cohorts import coverage
from drift.config import MonitorConfig
from drift.detectors.concordance_cusum import ChartConfig
from drift.key import Key
from drift.monitor import Monitor
from drift.reference import Reference
from drift.states import State
from engine.core.costs import CostModel
from engine.core.policies import make
from engine.core.request import Request
from ranker.types import Forecast, Outcome

CONFIG = MonitorConfig(chart=ChartConfig(streams=16, length=2048))
KEY = Key("m", "ranker", "1")
COST = CostModel(base=0.0, decode=0.001, prefill=0.0001)

Stream = Callable[..., list[Outcome]]


@pytest.fixture(scope="module")
def reference() -> Reference:
    from tests.drift.conftest import make_stream

    return Reference.learn(make_stream(1200, 0.36, 99), CONFIG)


class Loop:
    """A monitor that sees what was given out, and actions on what it says."""

    def __init__(self, reference: Reference, config: ActConfig | None = None) -> None:
        self.monitor = Monitor(CONFIG, {KEY: reference})
        self.acting = Acting(config)
        self.told: list[str] = []

    def run(self, outcomes: Sequence[Outcome], scale: float = 1.0) -> list[Outcome]:
        """As they ended: answers ``scale`` as long, and the forecasts that they got."""
        given = []
        for number, outcome in enumerate(outcomes):
            assert outcome.forecast is not None
            (said,) = self.acting.stamp("m", "", "", [outcome.forecast])
            tokens = max(1, round(outcome.output_tokens * scale))
            given.append(replace(outcome, forecast=said, output_tokens=tokens))
            self.monitor.update(given[-1])
            if number % 25 == 24:
                changes = self.acting.look(
                    standings(self.monitor), self.monitor.recent, outcome.arrival
                )
                self.told += [f"{change.what} {change.after}" for change in changes]
        return given


def test_a_healthy_ranker_is_left_alone(stream: Stream, reference: Reference) -> None:
    loop = Loop(reference)
    outcomes = stream(1500, 0.36, 3)
    assert [o.forecast for o in loop.run(outcomes)] == [o.forecast for o in outcomes]
    assert loop.told == []


def test_doubled_lengths_are_covered_again_and_the_end_of_it_is_noticed(
    stream: Stream, reference: Reference
) -> None:
    errors = []
    for seed in (0, 2, 4):
        loop = Loop(reference)
        loop.run(stream(520, 0.36, seed))
        given = loop.run(stream(700, 0.36, 10 + seed, start=520), scale=2.0)
        assert [told for told in loop.told if "quantiles" in told] == ["quantiles recalibrated"]
        first = next(i for i, o in enumerate(given) if _fitted(o))
        assert first <= 175
        errors.append([coverage(given[first : first + 500], p) - p for p in (0.5, 0.9)])
    assert np.abs(np.mean(errors, axis=0)).max() <= 0.03
    back = loop.run(stream(900, 0.36, 40, start=1220))
    assert loop.told[-1] == "quantiles the ranker's"
    assert not _fitted(back[-1])
    assert coverage(back[400:], 0.5) == pytest.approx(0.5, abs=0.05)


def _fitted(outcome: Outcome) -> bool:
    """Whether its quantiles are not the ranker's, whose logs lie evenly about their middle."""
    assert outcome.forecast is not None
    low, middle, high = (np.log(outcome.forecast.quantile(p)) for p in (0.1, 0.5, 0.9))
    return bool(abs(low + high - 2.0 * middle) > 1e-6)


def test_scores_that_say_nothing_give_everybody_the_same_and_order_is_that_of_arrival(
    stream: Stream, reference: Reference
) -> None:
    loop = Loop(reference)
    loop.run(stream(520, 0.36, 5))
    given = loop.run(stream(500, 0.0, 6, start=520))
    assert "quantiles recalibrated" in loop.told
    assert loop.acting.recalibration.flat == {KEY}
    raw = [o.forecast for o in stream(60, 0.0, 7) if o.forecast is not None]
    said = loop.acting.stamp("m", "", "", raw)
    assert len({forecast.quantiles for forecast in said}) == 1
    assert {forecast.trust for forecast in said} == {0.0}
    assert [f.score for f in said] == [f.score for f in raw], "the monitor goes on measuring"
    policy = make("boost", cost=COST, batch=8)
    requests = [Request(str(i), float(i), 1 + i * 37 % 90, f) for i, f in enumerate(said)]
    for request in requests:
        policy.arrived(request)
    assert [r.id for r in sorted(requests, key=policy.key)] == [r.id for r in requests]
    assert coverage(given[250:], 0.9) == pytest.approx(0.9, abs=0.05)


def test_switched_off_nothing_is_fitted(stream: Stream, reference: Reference) -> None:
    loop = Loop(reference, ActConfig(recalibrate=False))
    loop.run(stream(520, 0.36, 5))
    loop.run(stream(400, 0.36, 6, start=520), scale=3.0)
    assert not loop.acting.recalibration.active


def test_trouble_with_a_fit_keeps_no_trust_from_falling(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    acting = Acting()

    def broken(*args: object, **more: object) -> None:
        raise ValueError("no fit")

    monkeypatch.setattr("drift.acting.recalibration.refit", broken)
    outcomes = shifted(stream)
    acting.look([standing(State.FCFS, 300)], lambda key: outcomes, 0.0)
    assert acting.trusts() == {KEY: 0.0}
    assert not acting.recalibration.active


# -- parts -----------------------------------------------------------------------------------------


def standing(state: State, outcomes: int) -> Standing:
    return Standing(KEY, state, outcomes, True)


def shifted(stream: Stream, n: int = 300, scale: float = 3.0) -> list[Outcome]:
    return [replace(o, output_tokens=round(o.output_tokens * scale)) for o in stream(n, 0.4, 1)]


def test_it_is_looked_at_in_trouble_and_then_now_and_then(stream: Stream) -> None:
    made = Recalibration(RecalibrateConfig(every=50, rest=5.0))
    assert not made.due(standing(State.OK, 1000), 0.0)
    assert made.due(standing(State.WARN, 1000), 0.0)
    (change,) = made.look(standing(State.WARN, 1000), shifted(stream), 0.0)
    assert (change.what, change.after) == ("quantiles", "recalibrated")
    assert not made.due(standing(State.WARN, 1049), 60.0)
    assert made.due(standing(State.OK, 1050), 5.0)
    assert made.look(standing(State.OK, 1050), shifted(stream), 5.0) == [], "until it agrees"
    assert list(made.active) == [KEY]


def test_however_many_outcomes_come_a_version_is_fitted_at_most_every_five_seconds(
    stream: Stream,
) -> None:
    made, rows, fits = Recalibration(RecalibrateConfig()), shifted(stream), []
    for look in range(60):  # 2,000 a second, a look every quarter
        whole, now = standing(State.WARN, 1000 + 500 * look), look / 4.0
        if made.due(whole, now):
            fits.append(now)
            made.look(whole, rows, now)
    assert fits == [0.0, 5.0, 10.0]
    assert made.due(standing(State.DEGRADED, 40_000), 10.25), "a higher state does not wait"
    assert not made.due(standing(State.OK, 40_000), 10.25)


def test_lost_forecasts_give_nobody_flat_quantiles(stream: Stream) -> None:
    """Scores without order make a flat fit when order has decayed, not when forecasts are late."""
    rows = [replace(o, output_tokens=o.output_tokens * 3) for o in stream(300, 0.0, 6)]
    for order, flat in ((State.OK, False), (State.DEGRADED, True)):
        made = Recalibration(RecalibrateConfig())
        made.look(replace(standing(State.FCFS, 300), order=order), rows, 0.0)
        assert (made.flat == {KEY}) is flat


def test_too_few_outcomes_or_quantiles_that_cover_start_nothing(stream: Stream) -> None:
    made = Recalibration(RecalibrateConfig())
    assert made.look(standing(State.WARN, 60), shifted(stream, 60), 0.0) == []
    assert made.look(standing(State.WARN, 300), stream(300, 0.4, 2), 0.0) == []
    assert not made.active


def test_a_version_that_is_over_is_forgotten_and_it_is_said(stream: Stream) -> None:
    made = Recalibration(RecalibrateConfig())
    made.look(standing(State.WARN, 300), shifted(stream), 0.0)
    (change,) = made.forget([Key("m", "ranker", "2")])
    assert (change.key, change.after) == (KEY, "the ranker's")
    assert not made.active
    assert made.forget([]) == []


def test_forecasts_of_other_levels_are_left_as_they_are(stream: Stream) -> None:
    made = Recalibration(RecalibrateConfig())
    made.look(standing(State.WARN, 300), shifted(stream), 0.0)
    other = Forecast(0.1, (10.0, 20.0), "ranker", "1", (0.3, 0.7))
    assert made.apply(KEY, [other]) == [other]
    assert made.apply(KEY, []) == []


def test_lower_bounds_are_no_lengths(stream: Stream) -> None:
    """Cut at a limit, fitted p50 stays what it is without; taken for lengths it would be lower."""
    whole, cut = stream(500, 0.4, 4), stream(500, 0.4, 4, limit=200)
    scores = [o.forecast for o in whole if o.forecast is not None]
    medians = []
    for outcomes in (whole, cut):
        fitted = refit(outcomes, 80, order=True)
        assert fitted is not None
        medians.append(fitted.quantiles(scores)[:, 5].mean())
    assert medians[1] == pytest.approx(medians[0], rel=0.12)


def test_a_change_of_lengths_is_found_where_it_is_and_none_where_there_is_none(
    stream: Stream,
) -> None:
    for at in (100, 250, 400):
        both = [
            replace(o, output_tokens=o.output_tokens * (2 if i >= at else 1))
            for i, o in enumerate(stream(500, 0.4, at))
        ]
        assert since_change(both) == pytest.approx(500 - at, abs=25)
    assert [since_change(stream(500, 0.4, seed)) for seed in range(8)] == [500] * 8
    assert since_change(stream(30, 0.4, 1)) == 30
    assert since_change([]) == 0
