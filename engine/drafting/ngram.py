"""Prompt lookup: what followed the last few tokens when they were said before.

Saxena 2023 (github.com/apoorvumang/prompt-lookup-decoding). vLLM and transformers continue the
first of the longest occurrences, this the newest: it is right a little more often (measured, 0.54
against 0.50 of the drafts in chat) and is found without reading all that came before. No more is
guessed than was matched: what two tokens promise is wrong three times as often as what eight do.
Where the copy reaches the end of the text it goes on with itself, as in LZ77, so that a loop is
guessed in full.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from engine.drafting.drafter import Wanted


@dataclass(frozen=True, slots=True)
class NgramConfig:
    """low: fewest tokens that must have occurred before. high: more than these are not compared,
    nor guessed.

    tries: occurrences of the last ``low`` tokens that are compared, newest first. window: newest
    tokens that are sure to be searched; memory of a sequence is bounded by twice as many.

    Raises ``ValueError`` naming the field.
    """

    low: int = 2
    high: int = 8
    tries: int = 16
    window: int = 16_384

    def __post_init__(self) -> None:
        for name in ("low", "tries"):
            if getattr(self, name) < 1:
                raise ValueError(f"ngram.{name} must be >= 1, got {getattr(self, name)}")
        if self.high < self.low:
            raise ValueError(f"ngram.high must be >= low ({self.low}), got {self.high}")
        if self.window <= self.high:
            raise ValueError(f"ngram.window must be > high ({self.high}), got {self.window}")


class NgramIndex:
    """Where the tokens of one sequence occurred before.

    Chains of equal n-grams through an array of earlier places, as DEFLATE finds its matches: a
    token costs one look at a dictionary and a guess at most ``tries`` comparisons.
    """

    def __init__(self, config: NgramConfig) -> None:
        self._config = config
        self._begin = 0  # tokens before are forgotten
        self._end = 0  # n-grams that end before are known
        self._newest: dict[tuple[int, ...], int] = {}
        self._earlier = array("q")  # [end - begin]: where the same n-gram ended before that, or -1

    def propose(self, tokens: Seq[int], most: int) -> list[int]:
        """At most ``most`` guesses of what follows ``tokens``: those of the last call, and more."""
        self._learn(tokens)
        found, matched = self._match(tokens)
        size, most = len(tokens), min(most, matched)
        drafts = list(tokens[found : found + most])
        while len(drafts) < most:
            drafts.append(drafts[found + len(drafts) - size])
        return drafts

    def _learn(self, tokens: Seq[int]) -> None:
        """Take in the n-grams that end before the last token: the last one has no successor."""
        low, size = self._config.low, len(tokens)
        if size - self._begin > 2 * self._config.window:
            self._begin = self._end = size - self._config.window
            self._newest.clear()
            self._earlier = array("q")
        newest, earlier = self._newest, self._earlier
        for end in range(self._end, size):
            gram = tuple(tokens[end - low : end]) if end - low >= self._begin else ()
            if gram:
                earlier.append(newest.get(gram, -1))
                newest[gram] = end
            else:
                earlier.append(-1)
        self._end = max(self._end, size)

    def _match(self, tokens: Seq[int]) -> tuple[int, int]:
        """Where the longest of the compared occurrences ends, the newest of equals, and its length;
        0 where there is none."""
        low, high, size = self._config.low, self._config.high, len(tokens)
        place = self._newest.get(tuple(tokens[max(0, size - low) :]), -1)
        best, longest = 0, 0
        for _ in range(self._config.tries):
            if place < 0 or longest == high:
                break
            same, most = low, min(high, place - self._begin)
            while same < most and tokens[place - same - 1] == tokens[size - same - 1]:
                same += 1
            if same > longest:
                best, longest = place, same
            place = self._earlier[place - self._begin]
        return best, longest


class NgramDrafter:
    """A :class:`~engine.drafting.drafter.Drafter` that looks guesses up in each request's own
    tokens."""

    def __init__(self, config: NgramConfig | None = None) -> None:
        self._config = config or NgramConfig()
        self._indexes: dict[str, NgramIndex] = {}

    def propose(self, wanted: Seq[Wanted]) -> list[list[int]]:
        return [self._index(each).propose(each.sequence.tokens, each.most) for each in wanted]

    def forget(self, request_id: str) -> None:
        self._indexes.pop(request_id, None)

    def _index(self, wanted: Wanted) -> NgramIndex:
        name = wanted.sequence.id
        if name not in self._indexes:
            self._indexes[name] = NgramIndex(self._config)
        return self._indexes[name]
