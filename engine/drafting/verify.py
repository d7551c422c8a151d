"""Drafts against what the model would have said: which of them stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import torch

from engine.sampler import sample
from engine.sampler_logits import adjusted
from engine.sequence import Sequence
from engine.token import Token


@dataclass(slots=True)
class Verdict:
    """tokens: of each request, its next one and one more for each draft that stands, as far as
    logits are finite. failed: those that have none. dirty: those with drafts that do not stand and
    gave logits which are not finite."""

    tokens: dict[str, tuple[Token, ...]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    dirty: set[str] = field(default_factory=set)


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
    sampled = _Sampled(requests, logits, sequences)
    # What is sampled here does not depend on what was before: all of it in one go.
    sampled.take(
        row
        for row, name in enumerate(requests)
        if row == rows[name] or (name in drafts and _stateless(sequences[name]))
    )
    verdict = Verdict()
    said: dict[str, list[Token]] = {name: [] for name in rows}
    going, depth = list(rows), 0
    refused: list[int] = []
    while going:
        sampled.take(rows[name] + depth for name in going)
        after = []
        for name in going:
            row, guesses = rows[name] + depth, drafts.get(name, ())
            token = sampled.tokens[row]
            if token is None:
                # Behind a draft that stands its next step will fail, too.
                if not depth:
                    verdict.failed.add(name)
                continue
            sequences[name].append(token.id)
            said[name].append(token)
            if depth < len(guesses):
                if guesses[depth] == token.id:
                    after.append(name)
                else:
                    refused += range(row + 1, rows[name] + len(guesses) + 1)
        going, depth = after, depth + 1
    verdict.tokens = {name: tuple(tokens) for name, tokens in said.items() if tokens}
    verdict.dirty = {requests[row] for row in sampled.unsound(refused)}
    return verdict


def _stateless(sequence: Sequence) -> bool:
    """Whether what it samples from a row of logits depends on the row alone."""
    sampling = sequence.sampling
    return sampling.greedy and sampling.logprobs is None and not adjusted(sequence)


class _Sampled:
    """``tokens`` by row of logits, of those that were sampled; ``None`` where none is finite."""

    def __init__(
        self, requests: Seq[str], logits: torch.Tensor, sequences: Mapping[str, Sequence]
    ) -> None:
        self._requests = requests
        self._logits = logits
        self._sequences = sequences
        self.tokens: dict[int, Token | None] = {}

    def take(self, rows: Iterable[int]) -> None:
        """Sample ``rows`` that are not sampled yet."""
        new = [row for row in rows if row not in self.tokens]
        if not new:
            return
        part = self._logits if len(new) == len(self._logits) else self._logits[new]
        owners = [self._sequences[self._requests[row]] for row in new]
        self.tokens.update(zip(new, sample(part, owners), strict=True))

    def unsound(self, rows: Iterable[int]) -> list[int]:
        """Those of ``rows`` that hold a NaN, or an infinity as their maximum."""
        found = [row for row in rows if row in self.tokens and self.tokens[row] is None]
        if new := [row for row in rows if row not in self.tokens]:
            peaks = self._logits[new].amax(-1).isfinite().tolist()
            found += [row for row, fine in zip(new, peaks, strict=True) if not fine]
        return found
