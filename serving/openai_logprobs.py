"""Log probabilities as the OpenAI API has them: for texts by parallel lists, for chats by entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.detokenise import ByBytes
from engine.token import Token

TokenBytes = Callable[[int], bytes]

#: JSON has no infinity; vLLM writes this for a token that cannot come.
_LEAST = -9999.0


class TextLogprobs:
    """``logprobs`` of ``/v1/completions``, piece by piece. ``top``: as many likeliest with each."""

    def __init__(self, token_bytes: TokenBytes, top: int) -> None:
        self._bytes = token_bytes
        self._top = top
        self._decode = ByBytes(token_bytes)
        self._offset = 0

    def add(self, tokens: Sequence[Token]) -> dict[str, Any]:
        """Of new tokens, the ones before being told already."""
        offsets = []
        for token in tokens:
            offsets.append(self._offset)
            self._offset += len(self._decode.add(token.id))
        return {
            "tokens": [self._name(token.id) for token in tokens],
            "token_logprobs": [_number(token.logprob) for token in tokens],
            "top_logprobs": [self._likeliest(token) for token in tokens] if self._top else None,
            "text_offset": offsets,
        }

    def _likeliest(self, token: Token) -> dict[str, float | None] | None:
        """With the token itself, likely or not; ``None`` at the beginning of a prompt."""
        if token.logprob is None:
            return None
        found = {self._name(other): _number(logprob) for other, logprob in token.top}
        return found | {self._name(token.id): _number(token.logprob)}

    def _name(self, token: int) -> str:
        """Its text; its bytes where it has half a character, so that no two tokens are one."""
        content = self._bytes(token)
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in content)


class ChatLogprobs:
    """``logprobs`` of ``/v1/chat/completions``, piece by piece."""

    def __init__(self, token_bytes: TokenBytes, top: int) -> None:
        self._bytes = token_bytes

    def add(self, tokens: Sequence[Token]) -> dict[str, Any]:
        """Of new tokens."""
        return {"content": [self._entry(token) for token in tokens], "refusal": None}

    def _entry(self, token: Token) -> dict[str, Any]:
        top = [self._one(other, logprob) for other, logprob in token.top]
        return self._one(token.id, token.logprob) | {"top_logprobs": top}

    def _one(self, token: int, logprob: float | None) -> dict[str, Any]:
        content = self._bytes(token)
        return {
            "token": content.decode("utf-8", "replace"),
            "logprob": _number(logprob),
            "bytes": list(content),
        }


def _number(logprob: float | None) -> float | None:
    if logprob is None:
        return None
    return logprob if logprob > _LEAST else _LEAST  # what is not a number, too
