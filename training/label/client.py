"""Asks an OpenAI-compatible endpoint for one answer and keeps its numbers."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from ranker.types import FinishReason
from training.label.answer import Answer
from training.label.backoff import Backoff, retry_after
from training.label.sampling import Sampling

#: Busy, or broken in a way that passes.
_PASSING = {408, 425, 429, 500, 502, 503, 504}
#: What is wrong with one prompt, not with the run: too long, mostly.
_REFUSALS = {400, 413, 422}
#: Answers that ended by themselves. Whatever else ends one (``length`` apart) cut it.
_WHOLE = {"stop", "tool_calls", "function_call"}


class EndpointFailed(RuntimeError):
    """The endpoint cannot be asked: it refuses the run, or stays away for too long."""


class PromptRefused(RuntimeError):
    """The endpoint answers, but not to this prompt."""


class Client:
    """One endpoint, named by the address of its API; ``/v1`` is added to one without a path.

    ``timeout_s``: how long one answer may take. Messages of its errors hold the status and the
    error's code, never what a server says: that may quote the prompt.
    """

    def __init__(
        self,
        url: str,
        api_key: str = "",
        *,
        timeout_s: float = 600.0,
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"endpoint must be http://HOST:PORT/v1 or the like, got {url!r}")
        self._url = url.rstrip("/") + ("" if parts.path.strip("/") else "/v1")
        self._backoff = backoff or Backoff()
        self._rng = rng or random.Random()
        self._sleep = sleep
        headers = {"content-type": "application/json"}
        if api_key:
            headers["authorization"] = f"Bearer {api_key}"
        # The caller decides how many are in flight.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        timeout = httpx.Timeout(timeout_s, connect=10.0)
        self._http = httpx.AsyncClient(headers=headers, timeout=timeout, limits=limits)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    async def models(self) -> list[str]:
        """Names of the models that are served. Raises ``EndpointFailed``."""
        value = _json(await self._send("GET", "/models", None))
        listed = value.get("data")
        return [str(m["id"]) for m in listed if "id" in m] if isinstance(listed, list) else []

    async def ask(self, prompt: str, sampling: Sampling, seed: int | None) -> Answer:
        """The numbers of one answer. Tries again while the endpoint is busy or away.

        Raises ``PromptRefused``, and ``EndpointFailed`` when others would fare no better.
        """
        path = "/chat/completions" if sampling.chat else "/completions"
        return _answer(_json(await self._send("POST", path, body(prompt, sampling, seed))))

    async def _send(self, method: str, path: str, value: Any) -> httpx.Response:
        # In ASCII: half of a surrogate pair has no UTF-8. What becomes of it is for the endpoint.
        content = None if value is None else json.dumps(value).encode()
        said = ""
        for tried in range(self._backoff.tries):
            asked = None
            try:
                response = await self._http.request(method, self._url + path, content=content)
            except httpx.TransportError as error:
                said = type(error).__name__
            else:
                if response.is_success:
                    return response
                said = f"{response.status_code} ({_code(response)})"
                if response.status_code in _REFUSALS:
                    raise PromptRefused(f"{path}: the endpoint answered {said}")
                if response.status_code not in _PASSING:
                    break
                asked = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
            if tried + 1 < self._backoff.tries:
                await self._sleep(self._backoff.wait(tried, self._rng, asked))
        raise EndpointFailed(f"{self._url}{path}: {said}")


def body(prompt: str, sampling: Sampling, seed: int | None) -> dict[str, Any]:
    """The request of one draw. What is no part of OpenAI's API is sent only when it changes
    something: their own server refuses it."""
    asked: dict[str, Any] = {
        "model": sampling.model,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
    }
    if seed is not None:
        asked["seed"] = seed
    if sampling.repetition_penalty != 1.0:
        asked["repetition_penalty"] = sampling.repetition_penalty
    if sampling.chat:
        return asked | {"messages": [{"role": "user", "content": prompt}]}
    return asked | {"prompt": prompt}


def _answer(value: dict[str, Any]) -> Answer:
    try:
        reason = value["choices"][0]["finish_reason"]
        usage = value["usage"]
        prompt, output = int(usage["prompt_tokens"]), int(usage["completion_tokens"])
    except (KeyError, IndexError, TypeError, ValueError):
        raise EndpointFailed(
            "an answer lacks choices[0].finish_reason or usage with its token counts"
        ) from None
    if reason in _WHOLE:
        return Answer(prompt, output, FinishReason.STOP)
    cut = FinishReason.LENGTH if reason == "length" else FinishReason.ABORT
    return Answer(prompt, output, cut)


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        value = response.json()
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise EndpointFailed(f"{response.url.path}: the answer is no JSON object")
    return value


def _code(response: httpx.Response) -> str:
    """``code`` or ``type`` of an error as the OpenAI API writes them."""
    try:
        error = response.json()["error"]
        return str(error.get("code") or error.get("type"))[:64]
    except (ValueError, KeyError, TypeError, AttributeError):
        return "no error code"
