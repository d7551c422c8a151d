"""The engine's thread: schedule, run, commit, stream; until it is closed.

The scheduler is touched under one lock, which is never held while the model runs, so submitting
and aborting don't wait for a step. Submitting also adds to the executor under that lock, perhaps
while a step of others runs in it; only the thread runs it and drops from it what was scheduled.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence

from engine.core.request import Request
from engine.core.scheduler import QueueFull, Scheduler
from engine.costs import MeasuredStep
from engine.counters import Counters
from engine.detokenise import Detokenisers
from engine.events import Dead, InUse, Overloaded
from engine.executor import Executor, attempt
from engine.hashing import BlockHasher
from engine.intake import Intake
from engine.live import OnOutcome
from engine.roster import Roster
from engine.sampling import SamplingParams
from engine.stats import Stats
from engine.stop import StopRule
from engine.stream import Delivery, Stream, deliver
from ranker.types import FinishReason, Forecast, Outcome

log = logging.getLogger(__name__)

#: Longest pause of a thread that has requests but nothing it can run.
_STALLED_S = 0.05


class EngineLoop:
    """Owns ``scheduler`` and ``executor`` from :meth:`start` to :meth:`close`.

    ``served_model`` names outcomes; ``on_outcome`` is called in the engine's thread and should be
    quick. ``hasher`` names what blocks hold, for the prefix cache; without it nothing is shared.
    ``clock`` is the one that arrivals are told in, ``wall`` gives Unix seconds.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        executor: Executor,
        stop: StopRule,
        texts: Detokenisers,
        *,
        served_model: str,
        on_outcome: OnOutcome | None = None,
        hasher: BlockHasher | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._scheduler = scheduler
        self._executor = executor
        self._intake = Intake(stop, hasher, scheduler.lanes[0].name)
        self._clock = clock
        self._wall = wall
        self._roster = Roster(executor, stop, texts, served_model, on_outcome)
        self._counters = Counters()
        self._changed = threading.Condition()
        self._accepting = True
        self._closing = False
        self._dead = False
        self._thread = threading.Thread(target=self._main, name="engine", daemon=True)

    # -- called from anywhere --------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs; false before :meth:`start` and after it ended for any reason."""
        return self._thread.is_alive() and not self._dead

    async def submit(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        sampling: SamplingParams,
        forecast: Forecast | None = None,
        tenant: str = "",
        arrival: float | None = None,
        lane: str = "",
        priority: int = 0,
    ) -> Stream:
        """Queue a request; its events, of which the last is an ``Ended``.

        ``arrival`` is in seconds of ``clock``, now when ``None``; no ``lane`` is the first. Raises
        ``Overloaded``, ``Dead``, ``InUse`` for an id that is running or about to be forgotten, and
        ``ValueError`` when the lane is unknown or the request can never run.
        """
        stream = Stream(request_id, asyncio.get_running_loop())
        now = self._clock()
        arrival = now if arrival is None else min(arrival, now)
        request, chain = self._intake.request(
            request_id, prompt_ids, sampling, forecast,
            tenant=tenant, lane=lane, priority=priority, arrival=arrival,
        )  # fmt: skip
        with self._changed:
            if self._dead or self._closing or not self._accepting:
                raise Dead("the engine takes no more requests")
            if self._roster.knows(request_id):
                raise InUse(f"a request with id {request_id!r} is in use")
            self._executor.add(request_id, prompt_ids, sampling)
            try:
                self._scheduler.add(request, now)
                started = self._wall() - (now - arrival)
                self._roster.enter(request, stream, sampling, started, chain)
            except QueueFull as error:
                self._executor.remove(request_id)
                self._counters.refused[error.lane] += 1
                raise Overloaded(str(error), error.retry_after) from None
            except BaseException:
                self._scheduler.abort(request_id, now)
                self._executor.remove(request_id)
                raise
            self._counters.queued(forecast is not None, self._scheduler.num_waiting)
            self._changed.notify_all()
        return stream

    def abort(self, request_id: str) -> None:
        """End a request early and free its memory; unknown and finished ids are ignored."""
        with self._changed:
            now = self._clock()
            # The death of the loop has ended all of them already.
            request = None if self._dead else self._scheduler.abort(request_id, now)
            if request is None:
                return
            events = self._end(request, FinishReason.ABORT, now)
            self._changed.notify_all()
        deliver(events)

    def position(self, request_id: str) -> int | None:
        """As :meth:`Scheduler.position`."""
        with self._changed:
            return self._scheduler.position(request_id)

    def drain(self, timeout_s: float) -> bool:
        """Take no more requests and wait for those there are; the rest is aborted after
        ``timeout_s``. Whether all ended by themselves."""
        with self._changed:
            self._accepting = False
            done = self._changed.wait_for(lambda: not self._roster.ids or self._dead, timeout_s)
            left = self._roster.ids
        for request_id in left:
            self.abort(request_id)
        return done and not left

    def close(self) -> None:
        """Stop after the step at hand; requests that are left end as aborted."""
        self.drain(0.0)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def under_way(self) -> list[Outcome]:
        """Requests that have not ended, with their tokens so far, as if they were aborted now."""
        with self._changed:
            return self._roster.outcomes(self._clock())

    def stats(self) -> Stats:
        with self._changed:
            return self._counters.snapshot(self._scheduler, self._roster.pacing.totals)

    def measured_steps(self) -> list[MeasuredStep]:
        """The newest steps with their times, those of the loop itself included: what a simulated
        step must take for a simulated engine to keep the pace of this one."""
        with self._changed:
            return list(self._counters.measured)

    # -- the engine's thread ---------------------------------------------------------------------

    def _main(self) -> None:
        try:
            while self._await_work():
                self._step()
        except Exception as error:
            # The type alone, here and below: the message of a foreign error might quote an input.
            log.critical("the engine loop died: %s", type(error).__name__)
        finally:
            self._die()

    def _await_work(self) -> bool:
        with self._changed:
            if not self._awaited():
                self._counters.idle()
                self._changed.wait_for(self._awaited)
            return not self._closing

    def _awaited(self) -> bool:
        return self._scheduler.has_work or self._roster.leavers or self._closing

    def _step(self) -> None:
        begun = self._clock()
        with self._changed:
            self._roster.forget()
            plan = self._scheduler.schedule(begun)
            self._counters.schedule_seconds += self._clock() - begun
            if not plan:
                # Something must change first: an arrival, an abort, which notify, or the time.
                if self._scheduler.has_work:
                    event = self._scheduler.next_event(begun)
                    pause = _STALLED_S if event is None else min(_STALLED_S, event - begun)
                    self._counters.idle()
                    self._changed.wait(pause)
                return
        ran_at = self._clock()
        tokens, failed = attempt(self._executor, plan)
        now = self._clock()
        with self._changed:
            finished, kept, events = self._roster.take(plan, tokens, failed, now)
            drafted = {} if failed else self._executor.drafted
            accepted = {name: len(kept[name]) - 1 for name in drafted if name in kept}
            guessed = sum(drafted.values())
            if not failed:  # how long that took says nothing
                self._roster.pacing.stepped(plan, kept, guessed, begun, now)
            for request in self._scheduler.commit(plan, finished, now, accepted, drafted):
                events += self._end(request, request.finish_reason or FinishReason.ERROR, now)
            self._roster.forget()
            sampled = sum(map(len, kept.values()))
            running = self._scheduler.num_running
            self._counters.stepped(plan, guessed, sampled, running, now - ran_at)
            ended = self._clock()
            self._counters.cycled(plan, guessed, begun, ended)
            self._counters.schedule_seconds += ended - now
            self._counters.failed_steps += failed
            self._changed.notify_all()
        for stream in deliver(events):
            self.abort(stream.request_id)

    def _end(self, request: Request, reason: FinishReason, now: float) -> list[Delivery]:
        lane = self._scheduler.lane_of(request)
        self._counters.finished(lane, reason, self._roster.latencies(request.id, now))
        return self._roster.end(request, reason, now)

    def _die(self) -> None:
        """Nothing runs any more: end every stream there is."""
        with self._changed:
            reason = FinishReason.ABORT if self._closing else FinishReason.ERROR
            self._dead = True
            events = self._roster.end_all(reason, self._clock())
            self._changed.notify_all()
        deliver(events)
