"""Tokens to text as they come, without showing half a character."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Protocol

#: Text of token ids.
Decode = Callable[[Sequence[int]], str]

_REPLACEMENT = "\ufffd"
#: A character of UTF-8 has at most 4 bytes and so spans at most 4 tokens; what is still broken
#: after twice as many is no character to wait for.
_PATIENCE = 8
#: Shown tokens that stay as context. More than one, because a special token shows nothing.
_CONTEXT = 6


class Detokeniser(Protocol):
    """Text of one generation, in pieces whose concatenation is the text of all its tokens."""

    def add(self, token: int) -> str:
        """The text that ``token`` completes; empty while a character is incomplete."""
        ...

    def finish(self) -> str:
        """What is left when no token follows, broken characters included."""
        ...


#: Starts one; the argument says whether special tokens are to show nothing.
Detokenisers = Callable[[bool], Detokeniser]


class ByBytes:
    """For tokenizers whose tokens are strings of bytes, the text being all of them in a row.

    ``bytes_of`` gives the bytes of a token, none for one that shows nothing.
    """

    def __init__(self, bytes_of: Callable[[int], bytes]) -> None:
        self._bytes_of = bytes_of
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode

    def add(self, token: int) -> str:
        return self._decode(self._bytes_of(token))

    def finish(self) -> str:
        return self._decode(b"", True)


class InContext:
    """For all other tokenizers.

    A token is decoded together with those before it, because such a tokenizer renders a token
    differently at the start of a text (a leading space, say); only what is new is returned.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._shown = 0  # how many of them are in the text already

    def add(self, token: int) -> str:
        self._tokens.append(token)
        text = self._pending()
        if text.endswith(_REPLACEMENT) and len(self._tokens) - self._shown < _PATIENCE:
            return ""
        return self._show(text)

    def finish(self) -> str:
        return self._show(self._pending()) if self._shown < len(self._tokens) else ""

    def _pending(self) -> str:
        shown = self._decode(self._tokens[: self._shown])
        return self._decode(self._tokens)[len(shown) :]

    def _show(self, text: str) -> str:
        self._tokens = self._tokens[-_CONTEXT:]
        self._shown = len(self._tokens)
        return text
