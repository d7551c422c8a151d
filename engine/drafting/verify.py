"""Drafts against what the model would have said: which of them stand."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import torch

from engine.sampler import sample
from engine.sequence import Sequence
from engine.token import Token


@dataclass(slots=True)
class Verdict:
    """tokens: of each request, its next one and one more for each draft that stands, as far as
    logits are finite. failed: those that have none. refused: rows of logits behind drafts that do
    not stand."""

    tokens: dict[str, tuple[Token, ...]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)


def verify(
    requests: Seq[str],
    logits: torch.Tensor,
    sequences: Mapping[str, Sequence],
    drafts: Mapping[str, Seq[int]],
) -> Verdict:
    """Sample each request's next token and, as long as its drafts turn out to be what is sampled,
    those behind; append them to its sequence.

    Row r of ``logits [rows, vocabulary]`` belongs to ``requests[r]``, which names a request once,
    and once more for each of its ``drafts``, in order. A draft stands if the request samples it:
    the same logits, penalties and random number as without drafts, hence the same tokens.
    """
    rows: dict[str, int] = {}
    for row, name in enumerate(requests):
        rows.setdefault(name, row)
    verdict = Verdict()
    said: dict[str, list[Token]] = {name: [] for name in rows}
    going, depth = list(rows), 0
    while going:
        index = [rows[name] + depth for name in going]
        part = logits if len(index) == len(logits) else logits[index]
        after = []
        for name, token in zip(
            going, sample(part, [sequences[name] for name in going]), strict=True
        ):
            if token is None:
                # Behind a draft that stands its next step will fail, too.
                if not depth:
                    verdict.failed.append(name)
                continue
            sequences[name].append(token.id)
            said[name].append(token)
            guesses = drafts.get(name, ())
            if depth < len(guesses):
                if guesses[depth] == token.id:
                    after.append(name)
                else:
                    first = rows[name] + depth + 1
                    verdict.refused += range(first, rows[name] + len(guesses) + 1)
        going, depth = after, depth + 1
    verdict.tokens = {name: tuple(tokens) for name, tokens in said.items() if tokens}
    return verdict


def unsound(logits: torch.Tensor, rows: Seq[int]) -> list[int]:
    """Those of ``rows`` that hold a NaN, or an infinity as their maximum."""
    if not rows:
        return []
    peaks = logits[list(rows)].amax(-1).isfinite().tolist()
    return [row for row, fine in zip(rows, peaks, strict=True) if not fine]
