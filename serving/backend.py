"""What the front needs of an engine. ``engine.backend`` is one; tests bring smaller ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Protocol

from engine.events import Event, LaneInfo
from engine.readings import Distribution, Reading
from engine.sampling import SamplingParams
from ranker.types import Forecast, Outcome


class Backend(Protocol):
    """A model that is loaded, with its tokenizer and its loop."""

    @property
    def model(self) -> str:
        """The name it is served under."""
        ...

    @property
    def context_length(self) -> int:
        """Tokens, prompt and answer together, that one request may have."""
        ...

    @property
    def alive(self) -> bool: ...

    @property
    def lanes(self) -> Sequence[LaneInfo]:
        """The lanes that a request may name; the first is that of requests that name none."""
        ...

    def encode(self, prompt: str) -> list[int]:
        """Tokens of a text. Called from a thread."""
        ...

    def encode_chat(self, turns: Sequence[tuple[str, str]], **template: Any) -> list[int]:
        """Tokens of ``(role, content)`` turns under the model's chat template, ready to be
        answered unless ``template``, arguments of its own, says otherwise. Called from a thread.
        Raises ``ValueError`` when the template refuses them or there is none."""
        ...

    def text(self, token_ids: Sequence[int]) -> str:
        """What tokens say, special ones included."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """What one token says: perhaps half a character."""
        ...

    async def submit(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        sampling: SamplingParams,
        forecast: Forecast | None,
        tenant: str,
        arrival: float,
        lane: str = "",
        priority: int = 0,
    ) -> AsyncIterator[Event]:
        """Queue a request; its events end with exactly one ``Ended``.

        ``arrival`` is in seconds of ``time.monotonic``. Raises ``engine.events.Overloaded`` and
        ``Dead``, and ``ValueError`` when the request can never run.
        """
        ...

    def abort(self, request_id: str) -> None:
        """End a request early and free its memory. Unknown and finished ids are ignored."""
        ...

    def position(self, request_id: str) -> int | None:
        """Requests of its lane that wait before it; 0 once it runs, ``None`` when it ended."""
        ...

    def under_way(self) -> Sequence[Outcome]:
        """Requests that have not ended, with their tokens so far, as if they were aborted now.

        Called from a thread.
        """
        ...

    @property
    def stats_help(self) -> Mapping[str, str]:
        """What each metric of ``stats`` means."""
        ...

    def stats(self) -> Iterable[Reading | Distribution]:
        """Gauges, counters, whose names end in ``_total``, and histograms."""
        ...

    def close(self) -> None:
        """Stop the loop; requests that are left end as aborted."""
        ...
