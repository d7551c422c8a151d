"""One replay: arrivals at the engine, ends to the monitor, and its verdict on later arrivals."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drift.efficiency import ReplayConfig
from drift.opened import Open
from engine.arrivals import Floats
from engine.core.policies.base import Policy
from engine.core.request import Request
from engine.replica import Replica
from ranker.types import FinishReason, Outcome
from serving.drift_bench.acting.acts import Acts
from serving.drift_bench.acting.scene import Scene
from serving.drift_bench.acting.watched import Watched
from serving.drift_bench.deck import MODEL


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Of each arrival: ``e2el`` in seconds, and the ``trust`` and ``state`` that it came under."""

    e2el: Floats
    trust: Floats
    state: NDArray[np.int64]


class Loop:
    """``acts`` of ``None`` is an engine without a monitor."""

    def __init__(
        self,
        scene: Scene,
        policy: Policy,
        engine: ReplayConfig,
        acts: Acts | None = None,
        open_every: float = 5.0,
    ) -> None:
        self._scene = scene
        self._acts = acts
        self._open_every = open_every
        self._replica = Replica(engine.scheduler, Watched(policy, self._ended), engine.cost)
        self._finished = np.full(len(scene), np.nan)
        self._news: deque[tuple[float, Outcome]] = deque()
        self._open: dict[str, None] = {}  # ids under way, in order of arrival
        self._told = float("-inf")

    def run(self) -> Run:
        """All arrivals, and on until the last has ended."""
        scene, acts, pool = self._scene, self._acts, self._scene.deck.pool
        trust = np.ones(len(scene))
        state = np.zeros(len(scene), np.int64)
        for number, (row, now) in enumerate(
            zip(scene.rows.tolist(), scene.times.tolist(), strict=True)
        ):
            self._replica.advance(now)
            forecast = scene.deck.forecasts[row]
            if acts is not None:
                self._tell(acts, now)
                forecast = acts.stamped(forecast)
                trust[number], state[number] = forecast.trust, acts.state
            request = Request(
                id=str(number),
                arrival=now,
                prompt_tokens=max(1, int(pool.prompt_tokens[row])),
                forecast=forecast,
                true_tokens=int(pool.tokens[row]),
            )
            self._open[request.id] = None
            self._replica.submit(request)
        self._replica.advance()
        return Run(self._finished - scene.times, trust, state)

    def _ended(self, request: Request, now: float) -> None:
        number = int(request.id)
        self._finished[number] = now
        del self._open[request.id]
        if self._acts is not None:
            cut = self._scene.deck.pool.censored[self._scene.rows[number]]
            outcome = Outcome(
                request_id=request.id,
                served_model=MODEL,
                output_tokens=request.output_tokens,
                finish_reason=FinishReason.LENGTH if cut else FinishReason.STOP,
                arrival=request.arrival,
                finished=now,
                prompt_tokens=request.prompt_tokens,
                forecast=request.forecast,
            )
            self._news.append((now, outcome))

    def _tell(self, acts: Acts, now: float) -> None:
        """Whatever ended by ``now``: a step that began before may end later, and is not known."""
        while self._news and self._news[0][0] <= now:
            acts.heard(self._news.popleft()[1])
        if now - self._told >= self._open_every:
            self._told = now
            acts.under_way([found for id in self._open if (found := self._seen(id, now))])

    def _seen(self, request_id: str, now: float) -> Open | None:
        """A request under way; ``None`` when the engine has not taken it in yet."""
        request = self._replica.scheduler.get(request_id)
        if request is None:
            return None
        return Open(
            request.id,
            MODEL,
            request.output_tokens,
            request.arrival,
            max(now, request.arrival),
            request.prompt_tokens,
            request.forecast,
        )
