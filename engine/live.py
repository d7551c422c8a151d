"""A request that has not ended: its stream, its text, and what will be said of it."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.request import Request
from engine.events import Ended, Latencies, Tokens
from engine.hashing import HashChain
from engine.output import Output
from engine.pace import Pace
from engine.stream import Delivery, Stream
from engine.token import Token
from ranker.types import FinishReason, Outcome

OnOutcome = Callable[[Outcome], None]


class Live:
    """``arrived`` is the arrival in Unix seconds; ``request.arrival`` is on the loop's clock.

    ``chain`` names what is known of it, for the prefix cache; ``None``: it shares nothing.
    ``scored``: its first event is to tell how likely its prompt was.
    """

    def __init__(
        self,
        request: Request,
        stream: Stream,
        output: Output,
        arrived: float,
        chain: HashChain | None = None,
        scored: bool = False,
    ) -> None:
        self.request = request
        self.stream = stream
        self._arrived = arrived
        self._chain = chain
        self._scored = scored
        self._output = output
        self._first_token: float | None = None

    @property
    def scores_prompt(self) -> bool:
        """Whether its next event is to tell how likely its prompt was."""
        return self._scored and self._first_token is None

    def take(self, tokens: tuple[Token, ...], now: float) -> tuple[Tokens, FinishReason | None]:
        """The event of new tokens, and why the request ends with the last of them, if it does.

        Tokens behind one that ends it are left out. The last event carries all text held back.
        """
        if self._first_token is None:
            self._first_token = now
        text, output = "", self._output
        for count, token in enumerate(tokens, start=1):
            if self._chain is not None:
                self._chain.append(token.id)
            text += output.add(token.id)
            if output.reason is not None:
                return Tokens(text, tokens[:count]), output.reason
        return Tokens(text, tokens), None

    def rest(self) -> list[Delivery]:
        """Text that is still held back, for a request that ends between tokens."""
        text = self._output.finish() if self._output.reason is None else ""
        return [(self.stream, Tokens(text, ()))] if text else []

    def latencies(self, now: float) -> Latencies | None:
        """Of the request, if it ended now; ``None`` before its first token."""
        if self._first_token is None:
            return None
        request, first = self.request, self._first_token
        later = request.output_tokens - 1
        tpot = (now - first) / later if later > 0 else None
        return Latencies(first - request.arrival, tpot, now - request.arrival)

    def ended(self, reason: FinishReason, now: float, pace: Pace | None) -> Ended:
        request = self.request
        scheduled = now if request.first_scheduled is None else request.first_scheduled
        return Ended(
            reason=reason,
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            scored=request.forecast is not None,
            queue_seconds=max(0.0, scheduled - request.arrival),
            preemptions=request.preemptions,
            cached_tokens=request.cached_tokens,
            lane=request.lane,
            stop=self._output.stop,
            latencies=self.latencies(now),
            pace=pace,
        )

    def outcome(self, served_model: str, reason: FinishReason, now: float) -> Outcome:
        """What came of it. Both times stem from one clock, so the end is never before the start."""
        request = self.request
        return Outcome(
            request_id=request.id,
            served_model=served_model,
            output_tokens=request.output_tokens,
            finish_reason=reason,
            arrival=self._arrived,
            finished=self._arrived + max(0.0, now - request.arrival),
            prompt_tokens=request.prompt_tokens,
            forecast=request.forecast,
            tenant=request.tenant,
            lane=request.lane,
        )
