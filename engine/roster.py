"""The requests that have not ended: what a step yields becomes their events and outcomes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from engine.core.plan import Plan
from engine.core.request import Request
from engine.detokenise import Detokenisers
from engine.events import Latencies
from engine.executor import Executor
from engine.hashing import HashChain
from engine.live import Live, OnOutcome
from engine.output import Output
from engine.pacing import Pacing
from engine.sampling import SamplingParams
from engine.stop import StopRule
from engine.stream import Delivery, Stream
from engine.token import Token
from ranker.types import FinishReason, Outcome

log = logging.getLogger(__name__)


class Taken(NamedTuple):
    """What a step came to: who ends with it, the tokens of each request that count, and events.

    ``tokens`` leaves out those behind one that ended its request.
    """

    finished: dict[str, FinishReason]
    tokens: dict[str, tuple[Token, ...]]
    events: list[Delivery]


class Roster:
    """Who is being generated for. The loop's lock guards it."""

    def __init__(
        self,
        executor: Executor,
        stop: StopRule,
        texts: Detokenisers,
        served_model: str,
        on_outcome: OnOutcome | None,
    ) -> None:
        self._executor = executor
        self._stop = stop
        self._texts = texts
        self._served_model = served_model
        self._on_outcome = on_outcome or (lambda outcome: None)
        self._live: dict[str, Live] = {}
        self._gone: list[str] = []
        #: How evenly their tokens come.
        self.pacing = Pacing()

    @property
    def ids(self) -> list[str]:
        """Requests that have not ended."""
        return list(self._live)

    @property
    def leavers(self) -> bool:
        """Whether the executor still holds requests that ended."""
        return bool(self._gone)

    def knows(self, request_id: str) -> bool:
        """Whether the id belongs to a request that has not ended, or is still to be forgotten."""
        return request_id in self._live or request_id in self._gone

    def enter(
        self,
        request: Request,
        stream: Stream,
        sampling: SamplingParams,
        arrived: float,
        chain: HashChain | None,
    ) -> None:
        """``arrived`` in Unix seconds."""
        output = Output(request.prompt_tokens, sampling, self._stop, self._texts)
        scored = sampling.prompt_logprobs is not None
        self._live[request.id] = Live(request, stream, output, arrived, chain, scored)

    def outcomes(self, now: float) -> list[Outcome]:
        """What would be said of each that has not ended, if it were aborted at ``now``."""
        return [
            live.outcome(self._served_model, FinishReason.ABORT, now)
            for live in self._live.values()
        ]

    def latencies(self, request_id: str, now: float) -> Latencies | None:
        """Of a request that has not ended, if it did now; ``None`` before its first token."""
        return self._live[request_id].latencies(now)

    def take(
        self, plan: Plan, sampled: Mapping[str, tuple[Token, ...]], failed: bool, now: float
    ) -> Taken:
        """Judge and decode the tokens that the executor ``sampled``.

        All of a ``failed`` step end with an error, as does a request that sampled and has no token,
        or whose token cannot be judged or decoded.
        """
        finished = {
            step.request_id: FinishReason.ERROR
            for step in plan.steps
            if step.request_id in self._live
            and (failed or (step.samples and step.request_id not in sampled))
        }
        taken = Taken(finished, {}, [])
        for request_id, tokens in sampled.items():
            live = self._live.get(request_id)
            if live is None:  # aborted while the model ran
                continue
            try:
                scored = live.scores_prompt
                event, reason = live.take(tokens, now)
                if scored:
                    event = replace(event, prompt=self._executor.prompt(request_id))
            except Exception as error:  # a tokenizer may fail on what a model says
                log.error("request %s ends with an error (%s)", request_id, type(error).__name__)
                finished[request_id] = FinishReason.ERROR
                continue
            if reason is not None:
                finished[request_id] = reason
            taken.tokens[request_id] = event.tokens
            taken.events.append((live.stream, event))
        return taken

    def end(self, request: Request, reason: FinishReason, now: float) -> list[Delivery]:
        """Report the outcome of a request that ended at ``now``; its last events."""
        self._gone.append(request.id)
        live = self._live.pop(request.id)
        try:
            self._on_outcome(live.outcome(self._served_model, reason, now))
        except Exception as error:
            log.error("an outcome was not taken (%s)", type(error).__name__)
        try:
            rest = live.rest()
        except Exception as error:
            log.error("the end of a text was not decoded (%s)", type(error).__name__)
            rest = []
        pace = self.pacing.left(request.id)
        return [*rest, (live.stream, live.ended(reason, now, pace))]

    def end_all(self, reason: FinishReason, now: float) -> list[Delivery]:
        """As :meth:`end`, of everyone."""
        requests = [live.request for live in self._live.values()]
        return [event for request in requests for event in self.end(request, reason, now)]

    def forget(self) -> None:
        """Let the executor drop those that ended. Only between steps."""
        for request_id in self._gone:
            self._executor.remove(request_id)
        self._gone.clear()
