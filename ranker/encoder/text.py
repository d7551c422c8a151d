"""Prompts as token ids: both ends of a long one, at a cost that does not grow with it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ranker.window import Window

Ids = NDArray[np.int64]
#: Characters read per token that is kept. English has about 4.5; ten leaves room for the rest.
_CHARACTERS_PER_TOKEN = 10
_PAD_NAMES = ("[PAD]", "<pad>")


@dataclass(frozen=True, slots=True)
class EncoderText:
    """At most ``length`` tokens of a prompt, between the special tokens of the encoder.

    A prompt with more tokens keeps its first and its last ones, ``head_share`` of them from the
    beginning: instructions stand at either end, a pasted document in the middle. Between them comes
    what ends a text, when the ends are to be ``separated``; of a chat template that would end the
    turn. Very long prompts are cut by characters before they reach the tokenizer. That is copied;
    truncation and padding of its own are switched off. ``pad`` is the id that fills up a batch,
    found in the tokenizer when it is negative.

    Raises ``ValueError`` when nothing would be left of a prompt, or ``head_share`` is not a share.
    """

    tokenizer: Tokenizer = field(repr=False)
    length: int = 128
    head_share: float = 0.625
    pad: int = -1
    separated: bool = True
    _before: tuple[int, ...] = field(init=False, repr=False)
    _after: tuple[int, ...] = field(init=False, repr=False)
    _window: Window = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0.0 < self.head_share < 1.0:
            raise ValueError(f"encoder.head_share must lie inside (0, 1), got {self.head_share}")
        tokenizer = deepcopy(self.tokenizer)
        pad = self.pad if self.pad >= 0 else _pad(tokenizer)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        before, after = _specials(tokenizer)
        least = len(before) + len(after) * (2 if self.separated else 1) + 2
        if self.length < least:
            raise ValueError(f"encoder.length must be at least {least} tokens, got {self.length}")
        characters = self.length * _CHARACTERS_PER_TOKEN
        head = max(1, round(characters * self.head_share))
        set_ = object.__setattr__
        set_(self, "tokenizer", tokenizer)
        set_(self, "pad", pad)
        set_(self, "_before", before)
        set_(self, "_after", after)
        set_(self, "_window", Window(head, characters - head))

    def ids(self, prompts: Sequence[str]) -> list[list[int]]:
        """Token ids of each prompt, in order, special tokens among them; never more than
        ``length``. Any text is taken, lone surrogates and NUL characters too."""
        texts = [_speakable(self._window.cut(prompt)) for prompt in prompts]
        encoded = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [self._framed(entry.ids) for entry in encoded]

    def _framed(self, ids: list[int]) -> list[int]:
        before, after = list(self._before), list(self._after)
        if len(ids) > self.length - len(before) - len(after):
            between = after if self.separated else []
            room = self.length - len(before) - len(after) - len(between)
            head = min(room - 1, max(1, int(room * self.head_share)))
            ids = ids[:head] + between + ids[head - room :]
        # Of a tokenizer without special tokens, a blank prompt would have nothing to read.
        return [*before, *ids, *after] or [self.pad]


def padded(ids: Sequence[Sequence[int]], pad: int, least: int = 0) -> tuple[Ids, Ids]:
    """A batch as two arrays ``[rows, longest row]``, ``least`` tokens long at least: the ids filled
    up with ``pad``, and a mask that is 1 where there is a token of the prompt."""
    longest = max(least, *map(len, ids), 0)
    filled = np.full((len(ids), longest), pad, dtype=np.int64)
    mask = np.zeros((len(ids), longest), dtype=np.int64)
    for row, tokens in enumerate(ids):
        filled[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return filled, mask


def _specials(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What the tokenizer puts before and after a text of its own accord."""
    encoded = tokenizer.encode("a")
    special = encoded.special_tokens_mask
    start = next((i for i, mark in enumerate(special) if not mark), len(special))
    end = next((i for i, mark in enumerate(reversed(special)) if not mark), 0)
    return tuple(encoded.ids[:start]), tuple(encoded.ids[len(special) - end :])


def _pad(tokenizer: Tokenizer) -> int:
    if tokenizer.padding:
        return int(tokenizer.padding["pad_id"])
    found = (tokenizer.token_to_id(name) for name in _PAD_NAMES)
    return next((number for number in found if number is not None), 0)


def _speakable(text: str) -> str:
    """``text`` with what UTF-8 cannot hold, lone surrogates, as question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
