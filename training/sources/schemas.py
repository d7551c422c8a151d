"""What well-known chat data sets look like: one small reader each, chosen by the columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from training import sharegpt
from training.sources.chat import text_of
from training.split import base_id


class NotText(Exception):
    """A cell or a message that should hold text holds something else; says which and what."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer, empty where there is no text. ``depth`` counts the messages before
    it; what else is empty is not known."""

    question: str = field(repr=False)
    answer: str = field(repr=False)
    id: str = ""
    depth: int = 0
    conversation: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Schema:
    """``columns`` tell it from others. ``read`` raises :class:`NotText`. ``model`` answered where
    rows do not say who did; ``limit`` is the most tokens that an answer was given."""

    name: str
    columns: frozenset[str]
    read: Callable[[Mapping[str, Any]], Iterator[Exchange]]
    model: str = ""
    limit: int | None = None


def schema_of(where: str, columns: Iterable[str]) -> Schema:
    """Raises ``ValueError`` that lists what is known when ``columns`` fit none of it."""
    given = set(columns)
    for schema in SCHEMAS:
        if schema.columns <= given:
            return schema
    known = "; ".join(f"{s.name}: {', '.join(sorted(s.columns))}" for s in SCHEMAS)
    raise ValueError(
        f"{where}: columns {', '.join(sorted(given))} are of no known data set ({known}); write a "
        "table with prompt and output_tokens instead"
    )


def _lmsys(row: Mapping[str, Any]) -> Iterator[Exchange]:
    return _chat(row, str(row["conversation_id"]))


def _wildchat(row: Mapping[str, Any]) -> Iterator[Exchange]:
    return _chat(row, str(row["conversation_hash"]))


def _chat(row: Mapping[str, Any], conversation: str) -> Iterator[Exchange]:
    spoken = 0
    for i, (here, after) in enumerate(pairwise(_messages(row["conversation"]))):
        if (here["role"], after["role"]) == ("user", "assistant"):
            yield Exchange(
                _text(f"conversation: content of message {i + 1}", here["content"]),
                _text(f"conversation: content of message {i + 2}", after["content"]),
                f"{conversation}/{i}",
                spoken,
                conversation,
                row["model"],
            )
        spoken += here["role"] != "system"


def _sharegpt(row: Mapping[str, Any]) -> Iterator[Exchange]:
    name = str(row["id"])
    messages = _messages(row["conversations"])
    for message, depth, asked, answered in sharegpt.exchanges(name, messages):
        question = _text(f"conversations: value of message {message + 1}", asked)
        answer = _text(f"conversations: value of message {message + 2}", answered)
        yield Exchange(question, answer, f"{name}/{message}", depth, base_id(name))


def _alpaca(row: Mapping[str, Any]) -> Iterator[Exchange]:
    parts = [_text(column, row[column]) for column in ("instruction", "input")]
    yield Exchange("\n\n".join(part for part in parts if part), _text("output", row["output"]))


def _trace(row: Mapping[str, Any]) -> Iterator[Exchange]:
    yield Exchange(_text("prompt", row["prompt"]), _text("generated", row["generated"]))


def _messages(column: Iterable[Any]) -> list[Any]:
    # Where messages differ in their fields, datasets hands them over as JSON.
    return [json.loads(message) if isinstance(message, str) else message for message in column]


def _text(column: str, value: Any) -> str:
    """Text, or that of the parts of a message; empty where there is none."""
    if value is not None and not isinstance(value, str | list):
        raise NotText(
            f"column {column} must be text or parts with text, got {type(value).__name__}"
        )
    return text_of(value)


#: In the order in which columns are compared. Llama3-Trace was generated with at most 8,192 tokens.
SCHEMAS = (
    Schema("WildChat", frozenset({"conversation_hash", "conversation", "model"}), _wildchat),
    Schema("LMSYS-Chat-1M", frozenset({"conversation_id", "conversation", "model"}), _lmsys),
    Schema("ShareGPT", frozenset({"id", "conversations"}), _sharegpt, sharegpt.SERVED_MODEL),
    Schema("Alpaca", frozenset({"instruction", "input", "output"}), _alpaca, "text-davinci-003"),
    Schema("Llama3-Trace", frozenset({"prompt", "generated"}), _trace, limit=8192),
)
