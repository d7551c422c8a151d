"""Examples as an encoder learns them: one row a prompt, with all draws of its answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranker.encoder.model_number import model_number
from ranker.encoder.text import EncoderText
from training.lists import lengths_at, rank_shares
from training.sources import Example, Lengths

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rows:
    """``ids`` of each prompt; ``tokens``, ``censored`` and ``mask`` ``[rows, draws]``, the mask
    telling which draws there are; ``weights`` and numbers of served ``models`` ``[rows]``."""

    ids: list[list[int]]
    tokens: Floats
    censored: NDArray[np.bool_]
    mask: NDArray[np.bool_]
    weights: Floats
    models: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Tokens of each prompt as the encoder reads it."""
        return np.array([len(ids) for ids in self.ids], dtype=np.int64)

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return max(map(len, self.ids), default=0)

    def digest(self) -> str:
        """Changes when anything in the rows does; reveals no prompt."""
        sha = hashlib.sha256()
        for ids in self.ids:
            sha.update(np.array([len(ids), *ids], dtype=np.int64).tobytes())
        for column in (self.tokens, self.censored, self.mask, self.weights, self.models):
            sha.update(np.ascontiguousarray(column).tobytes())
        return sha.hexdigest()[:16]


def make_rows(
    parts: Sequence[Sequence[Example]],
    weights: Sequence[float],
    text: EncoderText,
    models: Sequence[str] = (),
) -> Rows:
    """Rows of ``parts``, each with its weight. The first part's lengths are taken as they are.

    The others are answers of other models or in other places, whose lengths mean something else:
    :func:`aligned` moves each to where the same share of rank lies in the first part. ``models``
    are the served models told apart; rows of any other have number 0. Prompts of one part that are
    the same text, answered by the same model, become one row with several draws, of which the
    heaviest gives the weight.
    """
    own = Lengths.of(parts[0])
    groups: list[list[tuple[float, bool]]] = []
    prompts: list[str] = []
    counted: list[float] = []
    numbers: list[int] = []
    for i, (part, weight) in enumerate(zip(parts, weights, strict=True)):
        lengths = Lengths.of(part)
        tokens = aligned(lengths, own) if i else lengths.tokens
        at: dict[tuple[str, str], int] = {}
        for example, length, cut in zip(part, tokens, lengths.censored, strict=True):
            key = example.model, example.prompt
            if key not in at:
                at[key] = len(groups)
                groups.append([])
                prompts.append(example.prompt)
                counted.append(0.0)
                numbers.append(0 if i else model_number(example.model, models))
            row = at[key]
            groups[row].append((float(length), bool(cut)))
            counted[row] = max(counted[row], weight * example.weight)
    draws = max(map(len, groups), default=1)
    shape = (len(groups), draws)
    tokens, censored = np.zeros(shape), np.zeros(shape, np.bool_)
    mask = np.zeros(shape, np.bool_)
    for row, group in enumerate(groups):
        mask[row, : len(group)] = True
        tokens[row, : len(group)] = [length for length, _ in group]
        censored[row, : len(group)] = [cut for _, cut in group]
    return Rows(
        text.ids(prompts), tokens, censored, mask, np.array(counted), np.array(numbers, np.int64)
    )


def aligned(lengths: Lengths, own: Lengths) -> Floats:
    """``lengths`` moved to the scale of ``own``: to its quantile at their share of rank.

    Shares come from Kaplan-Meier curves; a bound moves to the share that is known to be shorter,
    so that it stays a bound. What the order among ``lengths`` was, it still is.
    """
    shares = rank_shares(lengths.tokens, lengths.censored)
    # Of a bound, rank_shares gives the middle of what lies above it.
    shares = np.where(lengths.censored, 2.0 * shares - 1.0, shares)
    return lengths_at(shares, own.tokens, own.censored)
