"""One stream with a chosen shift, through the monitor that serves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from drift.config import MonitorConfig
from drift.events import Event
from drift.key import Key
from drift.reference import Reference
from drift.stream import Point, Stream
from serving.drift_bench.bench import Bench
from serving.drift_bench.deck import MODEL, Deck, Index
from serving.drift_bench.streams import Order, release
from serving.drift_bench.traffic import CHAT, Traffic

#: Usual traffic to its end, to see that nothing happens.
NOTHING = "none"


@dataclass(frozen=True, slots=True)
class SimulationConfig:
    """``shift``: what traffic turns into, by name. ``before``, ``after``: outcomes on either side
    of the change. ``mixing``: outcomes over which it takes place, 0 for at once. ``scale``: how
    many times as long answers become."""

    shift: str = NOTHING
    before: int = 1000
    after: int = 1500
    mixing: int = 0
    scale: float = 1.0
    order: Order = Order.INDEPENDENT

    def __post_init__(self) -> None:
        for name in ("before", "after"):
            if getattr(self, name) < 1:
                raise ValueError(f"simulation.{name} must be >= 1, got {getattr(self, name)}")
        if self.mixing < 0:
            raise ValueError(f"simulation.mixing must be >= 0, got {self.mixing}")
        if not self.scale > 0.0:
            raise ValueError(f"simulation.scale must be above 0, got {self.scale}")


@dataclass(frozen=True, slots=True)
class Simulation:
    """``changed``: number of the last outcome before the change. ``held``: completions that half of
    the outcomes waited for their place in order; ``late``: share that came too late for it."""

    changed: int
    reference: Reference
    events: tuple[Event, ...]
    points: tuple[Point, ...]
    held: float
    late: float

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready but for NaN, which means unknown."""
        return {
            "changed": self.changed,
            "reference_tau": self.reference.tau.value,
            "chart_limits": self.reference.calibration.limits,
            "held": self.held,
            "late": self.late,
            "events": [event.as_dict() for event in self.events],
            "points": [{**asdict(point), "state": str(point.state)} for point in self.points],
        }


def simulate(
    bench: Bench, traffic: Traffic, config: SimulationConfig, monitor: MonitorConfig | None = None
) -> Simulation:
    """Learn a reference from validation rows, then stream test rows and what they turn into.

    Raises ``ValueError`` for a shift that is not there.
    """
    monitor = monitor or MonitorConfig()
    shifts = {shift.name: shift for shift in traffic.shifts}
    if config.shift != NOTHING and config.shift not in shifts:
        known = ", ".join((NOTHING, *shifts))
        raise ValueError(f"shift: there is no {config.shift!r}; there are {known}")
    limit, streams = bench.config.limit, bench.config.streams
    shift = shifts.get(config.shift)
    usual = traffic.usual[shift.usual if shift is not None else CHAT]
    other = shift.pool if shift is not None else usual.test
    deck = Deck.of(usual.test.served(limit), other.served(limit, config.scale))
    reference = Reference.of(bench.reference(usual, config.order, limit), monitor)
    rng = bench.rng("simulate", config)
    rows = _rows(deck, config, rng)
    got = release(rows, deck, config.order, streams, rng)
    stream = Stream(Key(MODEL, MODEL, "1"), monitor, reference)
    outcomes = deck.outcomes(rows)
    events = [event for place in got.place for event in stream.update(outcomes[place])]
    events += stream.look()
    return Simulation(
        changed=int(np.searchsorted(got.place, config.before)),
        reference=reference,
        events=tuple(events),
        points=tuple(stream.history),
        held=float(np.median(got.held)),
        late=got.late,
    )


def _rows(deck: Deck, config: SimulationConfig, rng: np.random.Generator) -> Index:
    before, after = deck.before(config.before, rng), deck.after(config.after, rng)
    grown = np.minimum(np.arange(config.after) / config.mixing, 1.0) if config.mixing else 1.0
    mixed = np.where(rng.random(config.after) < grown, after, deck.before(config.after, rng))
    found: Index = np.concatenate([before, mixed])
    return found
