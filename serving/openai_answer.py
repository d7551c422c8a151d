"""Answers of the OpenAI API: whole bodies and stream chunks, for texts and for chats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from engine.events import Ended
from engine.token import Token
from ranker.types import FinishReason
from serving.openai_logprobs import ChatLogprobs, TextLogprobs, TokenBytes


class Logprobs(Protocol):
    def add(self, tokens: Sequence[Token]) -> dict[str, Any]: ...


class Answer(ABC):
    """Builds the JSON of one answer. ``created`` is in Unix seconds."""

    prefix: str
    whole_object: str
    chunk_object: str
    logprobs: Callable[[TokenBytes, int], Logprobs]

    def __init__(self, request_id: str, model: str, created: int) -> None:
        self._id = f"{self.prefix}-{request_id}"
        self._model = model
        self._created = created

    def first(self, index: int) -> list[dict[str, Any]]:
        """Chunks of a choice that come before any text."""
        return []

    def told(self) -> dict[str, Any]:
        """A chunk without choices, for what is told before there is any."""
        return self._frame(self.chunk_object, [])

    def chunk(
        self, index: int, text: str, logprobs: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """A chunk with new text of a choice."""
        return self._frame(self.chunk_object, [self._piece(index, text, logprobs, None)])

    def last(
        self, index: int, ended: Ended, text: str, logprobs: dict[str, Any] | None
    ) -> dict[str, Any]:
        """The chunk that says why a choice ended, with what is left of it."""
        piece = self._piece(index, text, logprobs, _reason(ended)) | _stop(ended)
        return self._frame(self.chunk_object, [piece]) | _extra(ended)

    def usage(self, counts: dict[str, Any]) -> dict[str, Any]:
        """The chunk of ``stream_options.include_usage``: no choices, only counts."""
        return self._frame(self.chunk_object, []) | {"usage": counts}

    def whole(
        self, choices: Sequence[tuple[str, dict[str, Any] | None, Ended]], counts: dict[str, Any]
    ) -> dict[str, Any]:
        """The answer in one piece; of each choice its text, its log probabilities and its end."""
        frame = self._frame(
            self.whole_object,
            [
                self._choice(index, text, logprobs, _reason(ended)) | _stop(ended)
                for index, (text, logprobs, ended) in enumerate(choices)
            ],
        )
        return frame | {"usage": counts} | _extra(choices[0][2])

    def _frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }

    @abstractmethod
    def _piece(
        self, index: int, text: str, logprobs: dict[str, Any] | None, reason: str | None
    ) -> dict[str, Any]: ...

    @abstractmethod
    def _choice(
        self, index: int, text: str, logprobs: dict[str, Any] | None, reason: str
    ) -> dict[str, Any]: ...


class TextAnswer(Answer):
    """``/v1/completions``."""

    prefix = "cmpl"
    whole_object = chunk_object = "text_completion"
    logprobs = TextLogprobs

    def _piece(
        self, index: int, text: str, logprobs: dict[str, Any] | None, reason: str | None
    ) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}

    def _choice(
        self, index: int, text: str, logprobs: dict[str, Any] | None, reason: str
    ) -> dict[str, Any]:
        return self._piece(index, text, logprobs, reason)


class ChatAnswer(Answer):
    """``/v1/chat/completions``."""

    prefix = "chatcmpl"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"
    logprobs = ChatLogprobs

    def first(self, index: int) -> list[dict[str, Any]]:
        delta = {"role": "assistant", "content": ""}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        return [self._frame(self.chunk_object, [choice])]

    def _piece(
        self, index: int, text: str, logprobs: dict[str, Any] | None, reason: str | None
    ) -> dict[str, Any]:
        delta = {"content": text} if text else {}
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}

    def _choice(
        self, index: int, text: str, logprobs: dict[str, Any] | None, reason: str
    ) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason}


def counts(prompt_tokens: int, output_tokens: int, cached_tokens: int | None) -> dict[str, Any]:
    """``usage``; ``cached_tokens`` is left out where it is not known yet."""
    usage: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": prompt_tokens + output_tokens,
    }
    if cached_tokens is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached_tokens}
    return usage


def _reason(ended: Ended) -> str:
    return "length" if ended.reason is FinishReason.LENGTH else "stop"


def _stop(ended: Ended) -> dict[str, Any]:
    """vLLM's ``stop_reason``: the stop text or token, null at an end of sequence."""
    return {"stop_reason": ended.stop}


def _extra(ended: Ended) -> dict[str, Any]:
    """How the request was scheduled, which no OpenAI field says; clients ignore what is unknown."""
    return {
        "shortfirst": {
            "scored": ended.scored,
            "queue_seconds": round(ended.queue_seconds, 6),
            "preemptions": ended.preemptions,
            "lane": ended.lane,
        }
    }
