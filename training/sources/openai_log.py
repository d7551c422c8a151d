"""Requests and responses of an OpenAI-compatible server, as its operator logged them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ranker.types import FinishReason
from training.sources import rows
from training.sources.assemble import EVERY_MODEL, assembled, split_by_hash
from training.sources.chat import conversation_of, opening, ranked_text
from training.sources.duplicates import Ids, Repeats
from training.sources.example import Data, Example
from training.split import RESERVED

#: What a server says of the end, and whether the length is then one. A filter or a client that
#: went away cut the answer off; a tool call is an answer.
_REASONS = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.STOP,
    "function_call": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.ABORT,
    "abort": FinishReason.ABORT,
}


class _Skip(Exception):
    """A row that says nothing of a length; its text is the reason, the same for all such rows."""


@dataclass(frozen=True, slots=True)
class _Prompt:
    """One prompt of a request; ``start`` is what opens its conversation."""

    text: str = field(repr=False)
    start: str = field(repr=False)


def read_openai_log(
    path: Path, served_model: str | None = None, *, requests: Path | None = None
) -> Data:
    """Examples of a JSON-lines log of chat or text completions.

    A line is ``{"request": {...}, "response": {...}}``, both as the API has them, with an optional
    ``id`` or ``request_id``; or a line of a Batch API output file, ``{"custom_id": ...,
    "response": {"body": {...}}}``, whose prompts are in the input file ``requests``. The prompt is
    the text completed or what the user said last; requests of a chat share the split of what opened
    it. Lengths are ``usage.completion_tokens``, reasoning included, since the engine generates it.
    Several choices share one usage: they count where each brings its own tokens (``token_ids`` or
    ``logprobs``). Rows without a length are skipped and counted by reason in ``Data.skipped``, and
    so is a line that has no id and is the same in all it holds as an earlier one. An id that comes
    again with another answer is no error, since some servers draw ids from few.

    Raises ``ValueError`` for a damaged line, a batch's output without ``requests``, or several
    models where none is named.
    """
    path = Path(path)
    asked = None if requests is None else _batch_input(Path(requests))
    wanted = None if served_model == EVERY_MODEL else served_model
    skipped: Counter[str] = Counter()
    found: list[Example] = []
    repeats = Repeats("a request_id")
    for number, (where, row) in enumerate(rows.read(path), 1):
        try:
            request, response = _pair(where, row, asked)
            model = str(request.get("model") or response.get("model") or wanted or "default")
            if wanted is not None and wanted not in (model, response.get("model")):
                continue
            name = _id(row, response)
            made = list(_examples(request, response, wanted or model, name or f"row-{number}"))
            # The whole line: its answer and when it was made tell draws of one prompt apart.
            line = "" if name else json.dumps(row, sort_keys=True, default=str)
            if made and line and repeats.again(line):
                raise _Skip(repeats.reason)
            found += made
        except _Skip as skip:
            skipped[str(skip)] += 1
    return assembled(
        path.stem,
        path.absolute().as_uri(),
        found,
        where=f"{path}",
        served_model=served_model,
        skipped=skipped,
    )


def _batch_input(path: Path) -> dict[str, Mapping[str, Any]]:
    ids = Ids()
    found: dict[str, Mapping[str, Any]] = {}
    for where, row in rows.read(path):
        name, body = row.get("custom_id"), row.get("body")
        if not isinstance(name, str) or not isinstance(body, dict):
            raise ValueError(f"{where}: column custom_id or body is missing: not a batch's input")
        ids.add(where, "custom_id", name)
        found[name] = body
    return found


def _pair(
    where: str, row: Mapping[str, Any], asked: Mapping[str, Mapping[str, Any]] | None
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    response = row.get("response")
    if "custom_id" in row:
        if asked is None:
            raise ValueError(
                f"{where}: column custom_id: a batch's output holds no prompts; give its input "
                "file as well"
            )
        request = asked.get(str(row["custom_id"]))
        if request is None:
            raise _Skip("no request with this custom_id")
        response = response.get("body") if isinstance(response, dict) else None
    else:
        request = row.get("request")
        if not isinstance(request, dict):
            raise ValueError(f"{where}: column request is missing or not an object")
    if row.get("error") or not isinstance(response, dict) or response.get("error"):
        raise _Skip("an error in place of an answer")
    return request, response


def _id(row: Mapping[str, Any], response: Mapping[str, Any]) -> str:
    names = (row.get("request_id"), row.get("custom_id"), row.get("id"), response.get("id"))
    return next((str(name) for name in names if name), "")


def _examples(
    request: Mapping[str, Any], response: Mapping[str, Any], model: str, name: str
) -> Iterator[Example]:
    prompts = _prompts(request)
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices or len(choices) % len(prompts):
        raise _Skip("no choices")
    if not all(isinstance(choice, dict) for choice in choices):
        raise _Skip("no choices")
    each = len(choices) // len(prompts)
    lengths = _lengths(request, response, choices)
    size = _usage(response, "prompt_tokens") if len(prompts) == 1 else None
    for i, (choice, tokens) in enumerate(zip(choices, lengths, strict=True)):
        prompt = prompts[i // each]
        reason = _REASONS.get(str(choice.get("finish_reason")))
        if reason is None:
            raise _Skip("no known finish_reason")
        split = split_by_hash(prompt.text, prompt.start)
        if split == RESERVED:
            continue
        yield Example(
            prompt.text,
            tokens,
            reason,
            model,
            id=name if len(choices) == 1 else f"{name}/{i}",
            split=split,
            prompt_tokens=size or 0,
            conversation=conversation_of(prompt.start),
        )


def _prompts(request: Mapping[str, Any]) -> list[_Prompt]:
    if "messages" in request:
        text = ranked_text(request["messages"])
        if text is None:
            raise _Skip("no text in the messages")
        return [_Prompt(text, opening(request["messages"]) or text)]
    prompt = request.get("prompt")
    given = prompt if isinstance(prompt, list) else [prompt]
    texts = [text for text in given if isinstance(text, str)]
    if not texts or len(texts) < len(given):
        raise _Skip("a prompt that is not text")
    if not all(text.strip() for text in texts):
        raise _Skip("a prompt of blanks")
    return [_Prompt(text, text) for text in texts]


def _lengths(
    request: Mapping[str, Any], response: Mapping[str, Any], choices: list[Mapping[str, Any]]
) -> list[int]:
    if len(choices) == 1:
        if (request.get("best_of") or 1) != 1:
            raise _Skip("usage counts answers that best_of threw away")
        tokens = _usage(response, "completion_tokens")
        if tokens is None:
            raise _Skip("no usage.completion_tokens")
        return [tokens]
    counted = [_own_tokens(choice) for choice in choices]
    if any(tokens is None for tokens in counted):
        raise _Skip("several choices share one usage")
    return [tokens for tokens in counted if tokens is not None]


def _usage(response: Mapping[str, Any], name: str) -> int | None:
    usage = response.get("usage")
    count = usage.get(name) if isinstance(usage, dict) else None
    whole = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    return count if whole else None


def _own_tokens(choice: Mapping[str, Any]) -> int | None:
    """Tokens that a choice itself lists: vLLM's ``token_ids``, or those of its ``logprobs``."""
    logprobs = choice.get("logprobs")
    held = logprobs if isinstance(logprobs, dict) else {}
    lists = (choice.get("token_ids"), held.get("content"), held.get("tokens"))
    return next((len(tokens) for tokens in lists if isinstance(tokens, list)), None)
