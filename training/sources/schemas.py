"""What well-known chat data sets look like: one small reader each, chosen by the columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from training import sharegpt
from training.split import base_id


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer. ``depth`` counts the messages before it; what is empty is not
    known."""

    question: str = field(repr=False)
    answer: str = field(repr=False)
    id: str = ""
    depth: int = 0
    conversation: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Schema:
    """``columns`` tell it from others. ``model`` answered where rows do not say who did; ``limit``
    is the most tokens that an answer was given."""

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
    for i, (here, after) in enumerate(pairwise(row["conversation"])):
        if (here["role"], after["role"]) == ("user", "assistant"):
            yield Exchange(
                here["content"] or "",
                after["content"] or "",
                f"{conversation}/{i}",
                spoken,
                conversation,
                row["model"],
            )
        spoken += here["role"] != "system"


def _sharegpt(row: Mapping[str, Any]) -> Iterator[Exchange]:
    name = str(row["id"])
    # Where messages differ in their fields, datasets hands them over as JSON.
    messages = [json.loads(m) if isinstance(m, str) else m for m in row["conversations"]]
    for message, depth, question, answer in sharegpt.exchanges(name, messages):
        yield Exchange(question, answer, f"{name}/{message}", depth, base_id(name))


def _alpaca(row: Mapping[str, Any]) -> Iterator[Exchange]:
    parts = (row["instruction"], row["input"])
    yield Exchange("\n\n".join(part for part in parts if part), row["output"] or "")


def _trace(row: Mapping[str, Any]) -> Iterator[Exchange]:
    yield Exchange(row["prompt"] or "", row["generated"] or "")


#: In the order in which columns are compared. Llama3-Trace was generated with at most 8,192 tokens.
SCHEMAS = (
    Schema("WildChat", frozenset({"conversation_hash", "conversation", "model"}), _wildchat),
    Schema("LMSYS-Chat-1M", frozenset({"conversation_id", "conversation", "model"}), _lmsys),
    Schema("ShareGPT", frozenset({"id", "conversations"}), _sharegpt, sharegpt.SERVED_MODEL),
    Schema("Alpaca", frozenset({"instruction", "input", "output"}), _alpaca, "text-davinci-003"),
    Schema("Llama3-Trace", frozenset({"prompt", "generated"}), _trace, limit=8192),
)
