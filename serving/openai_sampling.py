"""Sampling parameters of a request of the OpenAI API, vLLM's extra ones included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.sampling import SamplingParams
from serving.errors import invalid
from serving.jsonbody import Fields, check_text, kind
from serving.sampling import make_sampling


def sampling_of(fields: Fields, max_tokens: int | None, logprobs: int | None) -> SamplingParams:
    """Raises INVALID naming the field."""
    take: dict[str, Callable[[str], Any]] = {
        "temperature": fields.number,
        "top_p": fields.number,
        "top_k": fields.integer,
        "min_p": fields.number,
        "seed": fields.integer,
        "ignore_eos": fields.flag,
        "min_tokens": fields.integer,
        "include_stop_str_in_output": fields.flag,
        "skip_special_tokens": fields.flag,
        "repetition_penalty": fields.number,
        "presence_penalty": fields.number,
        "frequency_penalty": fields.number,
    }
    given = {name: value for name, read in take.items() if (value := read(name)) is not None}
    if given.get("top_k") == -1:  # how vLLM's clients say that all are kept
        del given["top_k"]
    given["stop"] = _texts(fields, "stop")
    given["stop_token_ids"] = tuple(token_ids(fields.raw("stop_token_ids"), "stop_token_ids"))
    given["logit_bias"] = _biases(fields)
    return make_sampling({"max_tokens": max_tokens, "logprobs": logprobs, **given}, "")


def token_ids(value: object, path: str) -> list[int]:
    """A list of tokens; null counts as empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise invalid(path, f"must be a list of tokens, got {kind(value)}")
    for token in value:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < 2**31:
            raise invalid(path, "must hold integers in [0, 2**31)")
    return value


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    value = fields.raw(name)
    if value is None:
        return ()
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise invalid(name, f"must be a string or a list of strings, got {kind(value)}")
    # An empty one is what some clients send for none.
    return tuple(text for each in value if (text := check_text(each, name)))


def _biases(fields: Fields) -> tuple[tuple[int, float], ...]:
    value = fields.raw("logit_bias")
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise invalid("logit_bias", f"must be an object, got {kind(value)}")
    if not all(token.isdecimal() and len(token) < 10 for token in value):
        raise invalid("logit_bias", "must name tokens by their numbers")
    biases = Fields(value, "logit_bias")
    return tuple((int(token), bias) for token in value if (bias := biases.number(token)))
