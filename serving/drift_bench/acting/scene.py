"""The arrivals of one replay: usual traffic, something else at once, and usual traffic again."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.arrivals import Floats, waves
from serving.drift_bench.acting.config import REVERSED, ActingConfig
from serving.drift_bench.deck import Deck, Index
from serving.drift_bench.pool import Pool
from serving.drift_bench.traffic import CHAT, Shift, Traffic, Usual


@dataclass(frozen=True, slots=True)
class Story:
    """What traffic was, and what it turns into."""

    usual: Usual
    shift: Shift


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """``rows[i]`` of ``deck`` arrives at ``times[i]`` seconds."""

    deck: Deck = field(repr=False)
    rows: Index
    times: Floats

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Output tokens of each arrival."""
        return self.deck.pool.tokens[self.rows]


def story(traffic: Traffic, name: str) -> Story:
    """Raises ``ValueError`` for a shift that is not there."""
    if name == REVERSED:
        pool = reversed_scores(traffic.chat.test)
        return Story(traffic.chat, Shift(REVERSED, "scores in the opposite order", CHAT, pool))
    for shift in traffic.shifts:
        if shift.name == name:
            return Story(traffic.usual[shift.usual], shift)
    known = ", ".join((REVERSED, *(shift.name for shift in traffic.shifts)))
    raise ValueError(f"shift: there is no {name!r}; there are {known}")


def reversed_scores(pool: Pool) -> Pool:
    """Each row with the forecast that the row at the other end of the order had."""
    order = np.argsort(pool.scores, kind="stable")
    other = np.empty_like(order)
    other[order] = order[::-1]
    return Pool(
        pool.scores[other], pool.quantiles[other], pool.tokens, pool.censored, pool.prompt_tokens
    )


def scene(told: Story, config: ActingConfig, rng: np.random.Generator) -> Scene:
    """Draw one. Bursts are of as many arrivals in every phase, and load is the same in each: gaps
    grow with the work that one request brings there on average. The change falls anywhere in a
    burst or between two."""
    streams, count = config.streams, config.arrivals
    usual, other = told.usual.test.served(config.limit), told.shift.pool.served(config.limit)
    deck = Deck.of(usual, other)
    number = np.arange(count)
    changed = (number >= config.change) & (number < config.back)
    rows = np.where(changed, deck.after(count, rng), deck.before(count, rng))
    gaps = np.where(changed, _work(other, config), _work(usual, config)) / streams.load
    ahead = int(rng.integers(round(2.0 * streams.period)))
    unit = waves(ahead + count, 1.0, streams.period, streams.swing, rng)[ahead:]
    return Scene(deck, rows, np.cumsum(np.diff(unit, prepend=unit[0]) * gaps))


def _work(pool: Pool, config: ActingConfig) -> float:
    """Seconds of the engine that a request takes on average."""
    engine = config.streams.engine
    batch = engine.scheduler.max_num_seqs
    lengths = zip(pool.prompt_tokens.tolist(), pool.tokens.tolist(), strict=True)
    return float(np.mean([engine.cost.work(max(1, p), t, batch) for p, t in lengths]))
