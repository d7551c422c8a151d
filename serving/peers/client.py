"""One streamed completion, timed from the outside: the same clock and rules for any server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from engine.timings import Timing
from serving.event_reader import DONE, EventReader
from serving.peers.http import Address, HttpFailed, error_type, post

_PATH = "/v1/completions"


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt and how many tokens to answer with; the text stays out of ``repr`` and of logs."""

    prompt: str = field(repr=False)
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished answer. gaps: seconds between the events that brought text after the first."""

    timing: Timing
    gaps: tuple[float, ...]


async def complete(
    address: Address,
    model: str,
    ask: Ask,
    name: str,
    *,
    arrived: Callable[[int], None] = lambda events: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Reply:
    """Stream one greedy completion of exactly ``ask.output_tokens`` tokens.

    Times start when the request is sent, connection included. The first token is the first event
    with a choice, whether or not its text is complete; tokens are those that the server counts in
    ``usage``, since an event may carry several. ``arrived`` is told of each such event.

    Raises ``HttpFailed`` when the answer is refused, breaks off or has another length, and
    ``OSError`` when nobody listens.
    """
    body = {
        "model": model,
        "prompt": ask.prompt,
        "max_tokens": ask.output_tokens,
        "temperature": 0.0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    times: list[float] = []
    usage: dict[str, Any] | None = None
    ended = False
    reader = EventReader()
    sent = clock()
    async with post(address, _PATH, body) as pieces:
        async for piece in pieces:
            now = clock()
            for data in reader.feed(piece):
                if data == DONE:
                    ended = True
                    continue
                event = _read(data, name)
                usage = event.get("usage") or usage
                if _brings_token(event, first=not times):
                    times.append(now)
                    arrived(1)
    if not ended or not times or usage is None:
        raise HttpFailed(f"{name}: the stream ended early, after {len(times)} events")
    prompt, output = int(usage["prompt_tokens"]), int(usage["completion_tokens"])
    if output != ask.output_tokens:
        raise HttpFailed(f"{name}: {ask.output_tokens} tokens were asked for and {output} came")
    gaps = tuple(after - before for before, after in pairwise(times))
    timing = Timing(
        request_id=name,
        arrival=sent,
        first_token=times[0],
        finished=times[-1],
        prompt_tokens=prompt,
        output_tokens=output,
        gaps=len(gaps),
        longest_gap=max(gaps, default=0.0),
        gap_squares=sum(gap * gap for gap in gaps),
    )
    return Reply(timing, gaps)


def _read(data: bytes, name: str) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise HttpFailed(f"{name}: an event is no JSON object")
    if "error" in event:
        raise HttpFailed(f"{name}: the stream ended with an error ({error_type(data)})")
    return event


def _brings_token(event: dict[str, Any], *, first: bool) -> bool:
    """Whether it has a choice with a token. An empty one that says why the answer ended follows the
    last token of some servers, and is none; others end with their last token, whose text may be
    empty, so when nothing came before, it is one."""
    choices = event.get("choices")
    if not choices:
        return False
    return first or bool(choices[0].get("text")) or choices[0].get("finish_reason") is None
