"""Answers of the OpenAI API: whole bodies and stream chunks, for texts and for chats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from engine.events import Ended
from ranker.types import FinishReason


class Answer(ABC):
    """Builds the JSON of one answer. ``created`` is in Unix seconds."""

    prefix: str
    whole_object: str
    chunk_object: str

    def __init__(self, request_id: str, model: str, created: int) -> None:
        self._id = f"{self.prefix}-{request_id}"
        self._model = model
        self._created = created

    def first(self) -> list[dict[str, Any]]:
        """Chunks that come before any text."""
        return []

    def told(self) -> dict[str, Any]:
        """A chunk without choices, for what is told before there is any."""
        return self._frame(self.chunk_object, [])

    def chunk(self, text: str) -> dict[str, Any]:
        """A chunk with new text."""
        return self._frame(self.chunk_object, [self._piece(text, None)])

    def last(self, ended: Ended) -> dict[str, Any]:
        """The chunk that says why the answer ended."""
        return self._frame(self.chunk_object, [self._piece("", _reason(ended))]) | _extra(ended)

    def usage(self, ended: Ended) -> dict[str, Any]:
        """The chunk of ``stream_options.include_usage``: no choices, only counts."""
        return self._frame(self.chunk_object, []) | {"usage": _usage(ended)}

    def whole(self, text: str, ended: Ended) -> dict[str, Any]:
        """The answer in one piece."""
        frame = self._frame(self.whole_object, [self._choice(text, _reason(ended))])
        return frame | {"usage": _usage(ended)} | _extra(ended)

    def _frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }

    @abstractmethod
    def _piece(self, text: str, reason: str | None) -> dict[str, Any]: ...

    @abstractmethod
    def _choice(self, text: str, reason: str) -> dict[str, Any]: ...


class TextAnswer(Answer):
    """``/v1/completions``."""

    prefix = "cmpl"
    whole_object = chunk_object = "text_completion"

    def _piece(self, text: str, reason: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}

    def _choice(self, text: str, reason: str) -> dict[str, Any]:
        return self._piece(text, reason)


class ChatAnswer(Answer):
    """``/v1/chat/completions``."""

    prefix = "chatcmpl"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def first(self) -> list[dict[str, Any]]:
        delta = {"role": "assistant", "content": ""}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        return [self._frame(self.chunk_object, [choice])]

    def _piece(self, text: str, reason: str | None) -> dict[str, Any]:
        delta = {"content": text} if text else {}
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}

    def _choice(self, text: str, reason: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        return {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}


def _reason(ended: Ended) -> str:
    return "length" if ended.reason is FinishReason.LENGTH else "stop"


def _usage(ended: Ended) -> dict[str, Any]:
    return {
        "prompt_tokens": ended.prompt_tokens,
        "completion_tokens": ended.output_tokens,
        "total_tokens": ended.prompt_tokens + ended.output_tokens,
        "prompt_tokens_details": {"cached_tokens": ended.cached_tokens},
    }


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
