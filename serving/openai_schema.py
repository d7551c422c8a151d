"""Requests of the OpenAI API: which fields count, their defaults, and how bad ones are named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.sampling import SamplingParams
from serving.errors import RequestError, invalid
from serving.job import Include, Job
from serving.jsonbody import Fields, check_text
from serving.limits import Limits
from serving.openai_chat import template_of, turns_of
from serving.openai_fields import COMMON, NEUTRAL
from serving.openai_sampling import sampling_of, token_ids

#: What the OpenAI API does when ``max_tokens`` of a text completion is absent.
_COMPLETION_TOKENS = 16
_MAX_CHOICES = 128
_INCLUDE = ("forecast", "queue_position", "timing")
_COMPLETION = (*COMMON, "prompt", "best_of", "echo")
_CHAT = (
    *COMMON, "messages", "max_completion_tokens", "top_logprobs", "add_generation_prompt",
    "continue_final_message", "chat_template_kwargs",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Streaming:
    """How an answer is sent. ``usage``: counts in the end; ``running``: and with each piece."""

    on: bool = False
    usage: bool = False
    running: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was understood: what to generate and how to send it back.

    ``jobs``: one for each prompt. Of each, ``best_of`` answers are generated and the ``n`` best are
    sent. ``logprobs``: so many likeliest tokens are told with each, ``None``: no probabilities.
    ``echo``: the prompt comes first; ``only_prompt``: and nothing after it.
    """

    jobs: tuple[Job, ...]
    streaming: Streaming
    n: int = 1
    best_of: int = 1
    logprobs: int | None = None
    echo: bool = False
    only_prompt: bool = False

    def in_lane(self, name: str) -> Call:
        """This call in lane ``name``, unless its body names one."""
        if self.jobs[0].lane:
            return self
        return replace(self, jobs=tuple(replace(job, lane=name) for job in self.jobs))

    def traced(self, headers: Mapping[str, str]) -> Call:
        """This call as part of the trace that W3C ``headers`` name."""
        if not headers:
            return self
        return replace(self, jobs=tuple(replace(job, trace=headers) for job in self.jobs))


def completion(body: Mapping[str, Any], limits: Limits) -> Call:
    """``POST /v1/completions``. Raises INVALID naming the field."""
    fields = Fields(body)
    fields.only(_COMPLETION, NEUTRAL)
    prompts = _prompts(fields.raw("prompt"), limits)
    echo = bool(fields.flag("echo"))
    limit = fields.integer("max_tokens")
    only_prompt = echo and limit == 0
    # One token is made and not shown: the way to the prompt's probabilities leads through a step.
    max_tokens = 1 if only_prompt else _COMPLETION_TOKENS if limit is None else limit
    logprobs = None if fields.raw("logprobs") is False else fields.integer("logprobs")
    streaming, n = _streaming(fields), _count(fields, "n", 1)
    best_of = _count(fields, "best_of", n)
    if best_of < n:
        raise invalid("best_of", f"must be at least n, got {best_of} and {n}")
    if best_of > n and streaming.on:
        raise invalid("best_of", "cannot be streamed: which is best shows in the end")
    sampling = sampling_of(fields, max_tokens, logprobs)
    if best_of > n and logprobs is None:
        sampling = replace(sampling, logprobs=0)
    if echo:
        sampling = replace(sampling, prompt_logprobs=logprobs)
    job = _job(fields, sampling, limits)
    jobs = tuple(
        replace(job, prompt=prompt) if isinstance(prompt, str) else replace(job, prompt_ids=prompt)
        for prompt in prompts
    )
    if len(jobs) * best_of > limits.max_items:
        raise invalid(
            "prompt", f"prompts times choices must be at most {limits.max_items}, got "
            f"{len(jobs)} times {best_of}",
        )  # fmt: skip
    return Call(jobs, streaming, n, best_of, logprobs, echo, only_prompt)


def chat(body: Mapping[str, Any], limits: Limits) -> Call:
    """``POST /v1/chat/completions``. Raises INVALID naming the field."""
    fields = Fields(body)
    fields.only(_CHAT, NEUTRAL)
    turns = turns_of(fields.raw("messages"), limits)
    limit = fields.integer("max_completion_tokens")
    if limit is None:
        limit = fields.integer("max_tokens")
    top = fields.integer("top_logprobs")
    wanted = bool(fields.flag("logprobs"))
    if top and not wanted:
        raise invalid("top_logprobs", "needs logprobs to be true")
    logprobs = (top or 0) if wanted else None
    try:
        sampling = sampling_of(fields, limit, logprobs)
    except RequestError as error:
        raise _renamed(error) from None
    job = replace(_job(fields, sampling, limits), turns=turns, template=template_of(fields))
    n = _count(fields, "n", 1)
    return Call((job,), _streaming(fields), n, n, logprobs)


def _renamed(error: RequestError) -> RequestError:
    """``logprobs`` is a flag here; its number has another name."""
    if error.field == "logprobs":
        return invalid("top_logprobs", error.message.partition(": ")[2])
    return error


def _prompts(value: Any, limits: Limits) -> list[str | tuple[int, ...]]:
    """A text, tokens, or a list of either."""
    if value is None:
        raise invalid("prompt", "must be set")
    if isinstance(value, str):
        return [check_text(value, "prompt")]
    if not isinstance(value, list) or not value:
        raise invalid("prompt", "must be a string, a list of tokens, or a list of either")
    if isinstance(value[0], int):
        return [tuple(token_ids(value, "prompt"))]
    if len(value) > limits.max_items:
        raise invalid("prompt", f"at most {limits.max_items} prompts, got {len(value)}")
    if isinstance(value[0], list):
        if [] in value:
            raise invalid(f"prompt[{value.index([])}]", "must hold at least one token")
        return [tuple(token_ids(each, f"prompt[{i}]")) for i, each in enumerate(value)]
    return [check_text(each, f"prompt[{i}]") for i, each in enumerate(value)]


def _count(fields: Fields, name: str, default: int) -> int:
    count = fields.integer(name)
    if count is None:
        return default
    if not 1 <= count <= _MAX_CHOICES:
        raise invalid(name, f"must lie in [1, {_MAX_CHOICES}], got {count}")
    return count


def _streaming(fields: Fields) -> Streaming:
    options = fields.object("stream_options")
    on = bool(fields.flag("stream"))
    if options is None:
        return Streaming(on)
    options.only(
        ("include_usage", "continuous_usage_stats"), {"include_obfuscation": (True, False)}
    )
    if not on:
        raise invalid("stream_options", "needs stream to be true")
    usage = bool(options.flag("include_usage"))
    return Streaming(on, usage, usage and bool(options.flag("continuous_usage_stats")))


def _job(fields: Fields, sampling: SamplingParams, limits: Limits) -> Job:
    user = fields.text("user") or ""
    if len(user) > limits.max_name_chars:
        raise invalid("user", f"at most {limits.max_name_chars} characters")
    priority = fields.integer("priority")
    return Job(
        model=fields.text("model") or "",
        prompt=None,
        turns=(),
        sampling=sampling,
        request_id=fields.text("request_id") or "",
        tenant=user,
        lane=fields.text("lane") or "",
        priority=0 if priority is None else priority,
        include=_include(fields.object("shortfirst")),
    )


def _include(fields: Fields | None) -> Include:
    if fields is None:
        return Include()
    fields.only(_INCLUDE, {})
    return Include(**{name: bool(fields.flag(name)) for name in _INCLUDE})
