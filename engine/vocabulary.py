"""What single tokens of a tokenizer say, in bytes: a token may be half a character."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from engine.detokenise import ByBytes, Detokeniser, InContext

_BYTE = re.compile("<0x([0-9A-F]{2})>")
_META_SPACE = "\u2581"


class Vocabulary:
    """The tokens of ``tokenizer``, one of transformers or with its ``decode``."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._fast = getattr(tokenizer, "backend_tokenizer", None)
        kind = "" if self._fast is None else type(self._fast.decoder).__name__
        self._byte_level = kind == "ByteLevel"
        self._bytes: dict[int, bytes] = {}
        added = {} if self._fast is None else self._fast.get_added_tokens_decoder()
        self._special = frozenset(token for token, entry in added.items() if entry.special)

    def detokeniser(self, skip_special: bool) -> Detokeniser:
        """Text of a generation as it comes."""
        if self._byte_level:
            return ByBytes(self._plain if skip_special else self.bytes_of)
        return InContext(lambda ids: self.text(ids, skip_special))

    def text(self, ids: Sequence[int], skip_special: bool) -> str:
        """Of tokens in a row."""
        text: str = self._tokenizer.decode(
            list(ids), skip_special_tokens=skip_special, clean_up_tokenization_spaces=False
        )
        return text

    def bytes_of(self, token: int) -> bytes:
        """Of one token, special ones included."""
        found = self._bytes.get(token)
        if found is None:
            found = self._bytes[token] = self._make(token)
        return found

    def _plain(self, token: int) -> bytes:
        return b"" if token in self._special else self.bytes_of(token)

    def _make(self, token: int) -> bytes:
        written = None if self._fast is None else self._fast.id_to_token(token)
        if written is None:  # models may have more outputs than their tokenizer has tokens
            return self.text([token], False).encode("utf-8", "replace")
        if self._byte_level:
            table = _byte_level_alphabet()
            found = [table.get(character) for character in written]
            if None in found:  # an added token stands for itself
                return written.encode("utf-8")  # type: ignore[no-any-return]
            return bytes(found)  # type: ignore[arg-type]
        if byte := _BYTE.fullmatch(written):
            return bytes.fromhex(byte[1])
        if _META_SPACE in written:
            return written.replace(_META_SPACE, " ").encode("utf-8")  # type: ignore[no-any-return]
        return self.text([token], False).encode("utf-8", "replace")


@lru_cache(maxsize=1)
def _byte_level_alphabet() -> dict[str, int]:
    """Characters by which byte-level tokenizers write bytes: printable ones of Latin-1 stand for
    themselves, the others for characters from 256 on (GPT-2's ``bytes_to_unicode``)."""
    themselves = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in themselves]
    return {chr(byte): byte for byte in themselves} | {
        chr(256 + place): byte for place, byte in enumerate(others)
    }
