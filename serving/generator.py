"""Takes a job in, whichever edge it came by: check, tokenise, rank, submit."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from engine.events import Dead, InUse, Overloaded
from engine.sampling import SamplingParams
from ranker.types import Forecast
from serving.backend import Backend
from serving.checks import check_job
from serving.errors import Kind, RequestError, invalid
from serving.generation import Account, Generation
from serving.job import Job
from serving.limits import Limits
from serving.metrics import EngineMetrics
from serving.sampling import refusal
from serving.story import NoTraces, Story, Traces

#: When to try again, while nobody has left the full queue to measure it by.
_RETRY_S = 1.0


class Forecaster(Protocol):
    """What of ``RankClient`` a generation needs."""

    async def forecast(
        self, prompt: str, served_model: str, *, request_id: str, tenant: str, lane: str
    ) -> Forecast | None: ...


@dataclass(frozen=True, slots=True)
class GeneratorConfig:
    """``rank_model``: the served model under which the rank service knows this one; empty means
    the service's own."""

    rank_model: str
    tokenizer_threads: int = 1

    def __post_init__(self) -> None:
        if self.tokenizer_threads < 1:
            raise ValueError(f"tokenizer_threads must be at least 1, got {self.tokenizer_threads}")


class Generator:
    """Accepts jobs for one backend. Belongs to one event loop."""

    def __init__(
        self,
        backend: Backend,
        forecaster: Forecaster | None,
        metrics: EngineMetrics,
        config: GeneratorConfig,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        traces: Traces | None = None,
    ) -> None:
        self._backend = backend
        self._forecaster = forecaster
        self._metrics = metrics
        self._config = config
        self._limits = limits or Limits()
        self._clock = clock
        self._traces = traces or NoTraces()
        self._running: set[str] = set()
        metrics.watch(lambda: len(self._running))
        self._threads = ThreadPoolExecutor(config.tokenizer_threads, thread_name_prefix="tokenize")

    @property
    def model(self) -> str:
        return self._backend.model

    @property
    def context_length(self) -> int:
        """Tokens, prompt and answer together, that one request may have."""
        return self._backend.context_length

    @property
    def ready(self) -> bool:
        return self._backend.alive

    def text(self, ids: Sequence[int]) -> str:
        """Of a prompt that came as tokens."""
        return self._backend.text(ids)

    def token_bytes(self, token: int) -> bytes:
        """What a token says, special ones included."""
        return self._backend.token_bytes(token)

    def check_model(self, model: str) -> None:
        """Raises NOT_FOUND for a model that is not the one served."""
        if model and model != self.model:
            raise RequestError(
                Kind.NOT_FOUND,
                f"model: {model[:64]!r} is not served here; {self.model!r} is",
                field="model",
                code="model_not_found",
            )

    async def start(self, job: Job, twin: Generation | None = None, answers: int = 1) -> Generation:
        """Queue ``job``. Raises ``RequestError`` when it is refused, and leaves nothing then.

        ``twin``: one of the same prompt, whose tokens, forecast and arrival are this one's too.
        ``answers``: how many of that prompt there are.
        """
        story = Story(job, self.model, self._clock() if twin is None else twin.arrival)
        try:
            generation = await self._start(job, story, twin)
        except RequestError as error:
            self._metrics.refused(error.kind.name.lower())
            self._traces.refused(story, error)
            raise
        if twin is None:
            self._metrics.accepted(job.sampling.max_tokens, answers)
        return generation

    async def _start(self, job: Job, story: Story, twin: Generation | None) -> Generation:
        self.check_model(job.model)
        check_job(job, self._limits, self._backend.lanes)
        if job.request_id in self._running:
            raise _in_use()
        story.request_id = request_id = job.request_id or uuid.uuid4().hex
        self._running.add(request_id)
        try:
            if twin is None:
                # Both at once: the forecast's deadline runs while the tokenizer works.
                ids, forecast = await asyncio.gather(self._tokens(job), self._forecast(job, story))
            else:
                ids, forecast = twin.prompt_ids, twin.forecast
            sampling = self._fit(job, len(ids))
            try:
                events = await self._backend.submit(
                    request_id, ids, sampling, forecast, job.tenant, story.arrival,
                    job.lane, job.priority,
                )  # fmt: skip
            except Overloaded as error:
                raise _busy(error) from None
            except Dead:
                raise RequestError(Kind.UNAVAILABLE, "the engine has stopped") from None
            except InUse:
                # Running elsewhere, or just aborted and held until the step at hand is over.
                raise _in_use() from None
            except ValueError as error:
                raise refusal(error) or invalid(job.input_field, str(error)) from None
        except BaseException:
            # Cancelled while the engine took it, perhaps: it ignores ids it does not know.
            self._release(request_id, True)
            raise
        story.queued, story.forecast, story.prompt_tokens = self._clock(), forecast, len(ids)
        return Generation(
            Account(story, self._metrics, self._traces, self._clock),
            ids,
            events,
            lambda abort: self._release(request_id, abort),
            lambda: self._backend.position(request_id),
        )

    async def _tokens(self, job: Job) -> Sequence[int]:
        loop = asyncio.get_running_loop()
        if job.prompt_ids:
            return job.prompt_ids
        if job.prompt is not None:
            return await loop.run_in_executor(self._threads, self._backend.encode, job.prompt)
        turns = [(turn.role, turn.content) for turn in job.turns]
        encode = partial(self._backend.encode_chat, turns, **job.template)
        try:
            return await loop.run_in_executor(self._threads, encode)
        except ValueError as error:
            raise invalid("messages", str(error)) from None

    async def _forecast(self, job: Job, story: Story) -> Forecast | None:
        if self._forecaster is None:
            return None
        began = self._clock()
        try:
            text = self.text(job.prompt_ids) if job.prompt_ids else job.ranked_text
            return await self._forecaster.forecast(
                text, self._config.rank_model, request_id=story.request_id,
                tenant=job.tenant, lane=job.lane or self._backend.lanes[0].name,
            )  # fmt: skip
        finally:
            story.ranked = (began, self._clock())

    def _fit(self, job: Job, prompt_tokens: int) -> SamplingParams:
        room = self._backend.context_length - prompt_tokens
        if prompt_tokens < 1:
            raise invalid(job.input_field, "holds no token")
        if room < 1:
            raise invalid(
                job.input_field,
                f"has {prompt_tokens} tokens; the model takes {self._backend.context_length} in "
                f"prompt and answer together",
            )
        wanted = job.sampling.max_tokens
        if wanted is None:
            if job.sampling.min_tokens > room:
                raise invalid(
                    "min_tokens",
                    f"{job.sampling.min_tokens} and a prompt of {prompt_tokens} tokens are more "
                    f"than the {self._backend.context_length} that the model takes",
                )
            return replace(job.sampling, max_tokens=room)
        if wanted > room:
            raise invalid(
                "max_tokens",
                f"{wanted} and a prompt of {prompt_tokens} tokens are more than the "
                f"{self._backend.context_length} that the model takes; at most {room} are left",
            )
        return job.sampling

    def _release(self, request_id: str, abort: bool) -> None:
        self._running.discard(request_id)
        if abort:
            self._backend.abort(request_id)

    def cut(self) -> None:
        """End what runs: its streams are told that the server stops."""
        for request_id in list(self._running):
            self._backend.abort(request_id)

    def close(self) -> None:
        self._threads.shutdown(wait=False)


def _busy(error: Overloaded) -> RequestError:
    wait = _RETRY_S if error.retry_after is None else error.retry_after
    return RequestError(Kind.BUSY, str(error), retry_after_s=wait, code="queue_full")


def _in_use() -> RequestError:
    return RequestError(
        Kind.CONFLICT, "request_id: a request with this id is running", field="request_id"
    )
