"""Requests of the OpenAI API: which fields count, their defaults, and how bad ones are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.sampling import SamplingParams
from serving.errors import invalid
from serving.job import ChatTurn, Include, Job
from serving.jsonbody import Fields, check_text, kind
from serving.limits import Limits
from serving.sampling import FIELDS, make_sampling

#: What the OpenAI API does when ``max_tokens`` of a text completion is absent.
_COMPLETION_TOKENS = 16
_ROLES = ("system", "developer", "user", "assistant")

_COMMON = (
    "model", "stream", "stream_options", "user", "lane", "priority", "shortfirst", *FIELDS,
)  # fmt: skip
_INCLUDE = ("forecast", "queue_position", "timing")
_COMPLETION = (*_COMMON, "prompt")
_CHAT = (*_COMMON, "messages", "max_completion_tokens")

#: Fields that clients send by habit, and the values at which they ask for nothing.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (False,),
    "suffix": ("",),
    "stop": ([],),
    "frequency_penalty": (0, 0.0),
    "presence_penalty": (0, 0.0),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "store": (False,),
    "metadata": ({},),
    "service_tier": ("auto", "default"),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was understood: what to generate and how to send it back."""

    job: Job
    stream: bool
    include_usage: bool

    def in_lane(self, name: str) -> Call:
        """This call in lane ``name``, unless its body names one."""
        return self if self.job.lane else replace(self, job=replace(self.job, lane=name))

    def traced(self, headers: Mapping[str, str]) -> Call:
        """This call as part of the trace that W3C ``headers`` name."""
        return replace(self, job=replace(self.job, trace=headers)) if headers else self


def completion(body: Mapping[str, Any], limits: Limits) -> Call:
    """``POST /v1/completions``. Raises INVALID naming the field."""
    fields = Fields(body)
    fields.only(_COMPLETION, _NEUTRAL)
    prompt = fields.raw("prompt")
    if isinstance(prompt, list):
        if len(prompt) != 1 or not isinstance(prompt[0], str):
            raise invalid("prompt", "must be one string; send several prompts as several requests")
        prompt = prompt[0]
    if prompt is None:
        raise invalid("prompt", "must be set")
    prompt = check_text(prompt, "prompt")
    limit = fields.integer("max_tokens")
    return _call(fields, prompt, (), _COMPLETION_TOKENS if limit is None else limit, limits)


def chat(body: Mapping[str, Any], limits: Limits) -> Call:
    """``POST /v1/chat/completions``. Raises INVALID naming the field."""
    fields = Fields(body)
    fields.only(_CHAT, _NEUTRAL)
    messages = fields.raw("messages")
    if not isinstance(messages, list):
        raise invalid("messages", f"must be a list of messages, got {kind(messages)}")
    if len(messages) > limits.max_messages:
        raise invalid("messages", f"at most {limits.max_messages}, got {len(messages)}")
    turns = tuple(_turn(message, f"messages[{i}]") for i, message in enumerate(messages))
    limit = fields.integer("max_completion_tokens")
    if limit is None:
        limit = fields.integer("max_tokens")
    return _call(fields, None, turns, limit, limits)


def _call(
    fields: Fields,
    prompt: str | None,
    turns: tuple[ChatTurn, ...],
    max_tokens: int | None,
    limits: Limits,
) -> Call:
    options = fields.object("stream_options")
    include_usage = False
    if options is not None:
        options.only(("include_usage",), {"include_obfuscation": (False,)})
        include_usage = bool(options.flag("include_usage"))
    stream = bool(fields.flag("stream"))
    if options is not None and not stream:
        raise invalid("stream_options", "needs stream to be true")
    user = fields.text("user") or ""
    if len(user) > limits.max_name_chars:
        raise invalid("user", f"at most {limits.max_name_chars} characters")
    priority = fields.integer("priority")
    job = Job(
        model=fields.text("model") or "",
        prompt=prompt,
        turns=turns,
        sampling=_sampling(fields, max_tokens),
        tenant=user,
        lane=fields.text("lane") or "",
        priority=0 if priority is None else priority,
        include=_include(fields.object("shortfirst")),
    )
    return Call(job, stream, include_usage)


def _include(fields: Fields | None) -> Include:
    if fields is None:
        return Include()
    fields.only(_INCLUDE, {})
    return Include(**{name: bool(fields.flag(name)) for name in _INCLUDE})


def _sampling(fields: Fields, max_tokens: int | None) -> SamplingParams:
    take: dict[str, Callable[[str], Any]] = {
        "temperature": fields.number,
        "top_p": fields.number,
        "top_k": fields.integer,
        "seed": fields.integer,
        "ignore_eos": fields.flag,
        "repetition_penalty": fields.number,
    }
    given = {name: value for name, read in take.items() if (value := read(name)) is not None}
    return make_sampling({"max_tokens": max_tokens, **given}, "")


def _turn(message: object, where: str) -> ChatTurn:
    if not isinstance(message, dict):
        raise invalid(where, f"must be an object, got {kind(message)}")
    fields = Fields(message, where)
    fields.only(("role", "content", "name"), {"tool_calls": ([],), "refusal": ("",)})
    role = fields.text("role")
    if role not in _ROLES:
        raise invalid(f"{where}.role", "must be system, developer, user or assistant")
    content = fields.raw("content")
    if isinstance(content, list):
        content = "".join(_part(part, f"{where}.content[{i}]") for i, part in enumerate(content))
    if content is None:
        raise invalid(f"{where}.content", "must be set")
    return ChatTurn(
        "system" if role == "developer" else role, check_text(content, f"{where}.content")
    )


def _part(part: object, where: str) -> str:
    if not isinstance(part, dict):
        raise invalid(where, f"must be an object, got {kind(part)}")
    fields = Fields(part, where)
    if fields.text("type") != "text":
        raise invalid(f"{where}.type", "only parts of type text are supported")
    fields.only(("type", "text"), {})
    text = fields.text("text")
    if text is None:
        raise invalid(f"{where}.text", "must be set")
    return text
