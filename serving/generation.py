"""A request that was accepted: its events, and what is counted and told of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from engine.events import Ended, Event
from ranker.types import FinishReason
from serving.errors import Kind, RequestError
from serving.metrics import EngineMetrics
from serving.story import Story, Traces


def failure_of(ended: Ended) -> RequestError | None:
    """What to tell the caller of a request that did not end by itself; ``None``: it did."""
    if ended.reason is FinishReason.ERROR:
        return RequestError(Kind.INTERNAL, "the engine could not finish this request; try again")
    if ended.reason is FinishReason.ABORT:
        return RequestError(
            Kind.UNAVAILABLE, "the server stopped before the answer was complete", retry_after_s=1.0
        )
    return None


class Account:
    """Counts one request: each event when it leaves, the whole when it is over."""

    def __init__(
        self, story: Story, metrics: EngineMetrics, traces: Traces, clock: Callable[[], float]
    ) -> None:
        self.story = story
        self._metrics = metrics
        self._traces = traces
        self._clock = clock
        self._last: float | None = None

    def elapsed(self) -> float:
        """Seconds since it arrived."""
        return self._clock() - self.story.arrival

    def event(self, event: Event) -> None:
        now = self.elapsed()
        if isinstance(event, Ended):
            self._metrics.finished(event, now)
            self._traces.ended(self.story, event)
        elif event.tokens:
            if self._last is None:
                self._metrics.first_token(now, self.story.prompt_tokens, len(event.tokens))
            else:
                self._metrics.next_tokens(now - self._last, len(event.tokens))
            self._last = now

    def left(self) -> None:
        """Its caller gave up."""
        self._metrics.aborted(self.story.forecast is not None)
        self._traces.left(self.story)


class Generation:
    """Iterate ``events`` once; ``close`` in any case.

    ``release`` is called once, when it is over; with true when it did not end by itself.
    ``position``: requests of its lane that wait before it now; ``None`` when it ended.
    """

    def __init__(
        self,
        account: Account,
        prompt_ids: Sequence[int],
        events: AsyncIterator[Event],
        release: Callable[[bool], None],
        position: Callable[[], int | None],
    ) -> None:
        story = account.story
        self.request_id = story.request_id
        self.include = story.job.include
        self.arrival = story.arrival
        self.prompt_ids = prompt_ids
        self.prompt_tokens = story.prompt_tokens
        self.forecast = story.forecast  #: what it is scheduled by; ``None``: unscored
        self.elapsed = account.elapsed
        self.position = position
        self._account = account
        self._events = events
        self._release = release
        self._over = False

    async def events(self) -> AsyncIterator[Event]:
        """Tokens as they come, then exactly one ``Ended``."""
        try:
            async for event in self._events:
                if isinstance(event, Ended):
                    self._over = True
                    self._release(False)
                self._account.event(event)
                yield event
                if self._over:
                    return
        finally:
            self.close()

    def close(self) -> None:
        """Abort the request unless it ended by itself. May be called again."""
        if not self._over:
            self._over = True
            self._account.left()
            self._release(True)
