"""The fields that requests of the OpenAI API may have, beyond those that a parser reads itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SAMPLING = (
    "temperature", "top_p", "top_k", "min_p", "seed", "ignore_eos", "min_tokens", "stop",
    "stop_token_ids", "include_stop_str_in_output", "skip_special_tokens", "logit_bias",
    "repetition_penalty", "presence_penalty", "frequency_penalty", "max_tokens",
)  # fmt: skip
#: Labels that change nothing about an answer.
_LABELS = ("metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")
COMMON = (
    "model", "stream", "stream_options", "user", "lane", "priority", "request_id", "n", "logprobs",
    "shortfirst", *_LABELS, *SAMPLING,
)  # fmt: skip

#: Fields that clients send by habit, and the values at which they ask for nothing.
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "store": (False,),
    "service_tier": ("auto", "default"),
    "modalities": (["text"],),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "use_beam_search": (False,),
    "length_penalty": (1, 1.0),
    "early_stopping": (False,),
    "spaces_between_special_tokens": (True,),
    "bad_words": ([],),
    "prompt_logprobs": (),
    "allowed_token_ids": (),
    "truncate_prompt_tokens": (),
    "structured_outputs": (),
    "return_tokens_as_token_ids": (False,),
    "return_token_ids": (False,),
    "include_reasoning": (True, False),
    "cache_salt": (),
    "chat_template": (),
    "prediction": (),
    "audio": (),
    "web_search_options": (),
}
