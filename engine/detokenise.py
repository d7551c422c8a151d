"""Tokens to text as they come, without showing half a character."""

from __future__ import annotations

from collections.abc import Callable, Sequence

#: Text of token ids, special tokens left out.
Decode = Callable[[Sequence[int]], str]

_REPLACEMENT = "\ufffd"
#: A character of UTF-8 has at most 4 bytes and so spans at most 4 tokens; what is still broken
#: after twice as many is no character to wait for.
_PATIENCE = 8
#: Shown tokens that stay as context. More than one, because a special token shows nothing.
_CONTEXT = 6


class Detokeniser:
    """Text of one generation, in pieces whose concatenation is the text of all its tokens.

    A token is decoded together with those before it, because tokenizers render a token
    differently at the start of a text (a leading space, say); only what is new is returned.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._shown = 0  # how many of them are in the text already

    def add(self, token: int) -> str:
        """The text that ``token`` completes; empty while a character is incomplete."""
        self._tokens.append(token)
        text = self._pending()
        if text.endswith(_REPLACEMENT) and len(self._tokens) - self._shown < _PATIENCE:
            return ""
        return self._show(text)

    def finish(self) -> str:
        """What is left when no token follows, broken characters included."""
        return self._show(self._pending()) if self._shown < len(self._tokens) else ""

    def _pending(self) -> str:
        shown = self._decode(self._tokens[: self._shown])
        return self._decode(self._tokens)[len(shown) :]

    def _show(self, text: str) -> str:
        self._tokens = self._tokens[-_CONTEXT:]
        self._shown = len(self._tokens)
        return text
