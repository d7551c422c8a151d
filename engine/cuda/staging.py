"""The numbers of a step on their way to the device: one piece of memory, one copy, no waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Words = NDArray[np.int64]

#: Steps whose numbers may be on their way at once; the next one waits for the oldest.
_UNDER_WAY = 3


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each field of a step lies in a buffer of int64 words.

    ``tokens`` T, of which the first ``singles`` are sequences of one row; ``others``: the
    sequences behind them; ``sampled``: rows that are sampled from; ``pages``: width of the table.
    """

    tokens: int
    singles: int
    others: int
    sampled: int
    pages: int

    def fields(self) -> Mapping[str, tuple[tuple[int, ...], int]]:
        """Shape and bytes of a number, by name. Those of eight bytes come first: each begins at a
        word."""
        sequences = self.singles + self.others
        return {
            "token_ids": ((self.tokens,), 8),
            "positions": ((self.tokens,), 8),
            "slots": ((self.tokens,), 8),
            "sampled_rows": ((self.sampled,), 8),
            "used": ((sequences,), 4),
            "table": ((sequences, self.pages), 4),
            "single_firsts": ((self.singles + 1,), 4),
            "single_ends": ((self.singles + 1,), 4),
            "other_firsts": ((self.others + 1,), 4),
            "other_ends": ((self.others + 1,), 4),
        }

    @property
    def words(self) -> int:
        return sum(_words(shape, size) for shape, size in self.fields().values())

    def tensors(self, buffer: torch.Tensor) -> dict[str, torch.Tensor]:
        """The fields as views of ``buffer``, int64 ``[words]`` on any device."""
        found, start = {}, 0
        for name, (shape, size) in self.fields().items():
            words = _words(shape, size)
            part = buffer.narrow(0, start, words)
            if size == 4:
                part = part.view(torch.int32).narrow(0, 0, int(np.prod(shape)))
            found[name] = part.view(shape)
            start += words
        return found

    def arrays(self, buffer: Words) -> dict[str, NDArray[Any]]:
        """The same of memory that numpy writes to."""
        found: dict[str, NDArray[Any]] = {}
        start = 0
        for name, (shape, size) in self.fields().items():
            words = _words(shape, size)
            part: NDArray[Any] = buffer[start : start + words]
            if size == 4:
                part = part.view(np.int32)[: int(np.prod(shape))]
            found[name] = part.reshape(shape)
            start += words
        return found


class Staging:
    """Host memory that steps are written to, pinned beside a GPU, and sent from."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pinned = device.type == "cuda"
        self._rooms: list[torch.Tensor] = [self._room(0) for _ in range(_UNDER_WAY)]
        self._sent: list[torch.cuda.Event | None] = [None] * _UNDER_WAY
        self._next = 0

    def room(self, words: int) -> Words:
        """Where to write ``words`` int64 numbers that :meth:`send` sends. Holds old ones."""
        if (sent := self._sent[self._next]) is not None:
            sent.synchronize()
        if len(self._rooms[self._next]) < words:
            self._rooms[self._next] = self._room(words)
        array: Words = self._rooms[self._next].numpy()[:words]
        return array

    def send(self, words: int) -> torch.Tensor:
        """What was written to the room, on the device, int64 ``[words]``; does not wait."""
        here = self._next
        self._next = (here + 1) % _UNDER_WAY
        there = torch.empty(words, dtype=torch.int64, device=self._device)
        there.copy_(self._rooms[here][:words], non_blocking=True)
        if self._pinned:
            event = self._sent[here]
            if event is None:
                event = self._sent[here] = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(torch.cuda.current_stream(self._device))
        return there

    def _room(self, words: int) -> torch.Tensor:
        # Half as much again, so that growing batches don't allocate every step.
        return torch.empty(words + words // 2, dtype=torch.int64, pin_memory=self._pinned)


def _words(shape: tuple[int, ...], size: int) -> int:
    return -(-int(np.prod(shape)) * size // 8)
