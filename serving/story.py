"""What happened to one request at the front, when; and who wants to hear of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.events import Ended
from ranker.types import Forecast
from serving.errors import RequestError
from serving.job import Job


@dataclass(slots=True)
class Story:
    """Times are seconds of the front's monotonic clock, ``None`` for what did not happen (yet).

    ``job`` is as it came, ``model`` the one that is served, ``request_id`` the one it got.
    ``ranked``: when the rank service was asked and had answered, or not in time. ``queued``: when
    the engine took the request.
    """

    job: Job
    model: str
    arrival: float
    request_id: str = ""
    ranked: tuple[float, float] | None = None
    forecast: Forecast | None = None
    prompt_tokens: int = 0
    queued: float | None = None


class Traces(Protocol):
    """Hears of each request once, when it is over."""

    def refused(self, story: Story, error: RequestError) -> None: ...

    def left(self, story: Story) -> None:
        """Its caller gave up."""
        ...

    def ended(self, story: Story, ended: Ended) -> None: ...


class NoTraces:
    """Nobody listens."""

    def refused(self, story: Story, error: RequestError) -> None:
        return None

    def left(self, story: Story) -> None:
        return None

    def ended(self, story: Story, ended: Ended) -> None:
        return None
