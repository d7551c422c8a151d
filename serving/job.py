"""What a caller wants generated, whichever edge it came in by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.sampling import SamplingParams


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One turn of a conversation; ``role`` is system, user or assistant."""

    role: str
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Include:
    """What to tell beside the answer: the forecast it is scheduled by, how many wait before it,
    and when its tokens came."""

    forecast: bool = False
    queue_position: bool = False
    timing: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """What to generate: a text to continue (``prompt``), its tokens (``prompt_ids``), or else a
    conversation.

    An empty ``model`` means the one that is served, an empty ``request_id`` a new one, an empty
    ``lane`` the first. Within a lane that orders by priority, the lower ``priority`` goes first.
    ``trace``: W3C headers of the trace that the call belongs to. ``template``: arguments of the
    model's chat template that differ from the usual.
    """

    model: str
    prompt: str | None = field(repr=False)
    turns: tuple[ChatTurn, ...]
    sampling: SamplingParams
    request_id: str = ""
    tenant: str = ""
    lane: str = ""
    priority: int = 0
    include: Include = Include()
    trace: Mapping[str, str] = field(default_factory=dict, repr=False)
    prompt_ids: tuple[int, ...] = field(default=(), repr=False)
    template: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def input_field(self) -> str:
        return "messages" if self.prompt is None and not self.prompt_ids else "prompt"

    @property
    def ranked_text(self) -> str:
        """What the ranker is asked about: the prompt, or what the user said last.

        Rankers are trained on what people typed, so a template's frame and a system prompt that
        all requests share would only be noise.
        """
        if self.prompt is not None:
            return self.prompt
        said = [turn.content for turn in self.turns if turn.role == "user"]
        return said[-1] if said else self.turns[-1].content


def trace_of(headers: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """The W3C trace context in a call's headers or metadata, whose names are in lower case."""
    return {k: v for k, v in headers if k in ("traceparent", "tracestate") and isinstance(v, str)}
