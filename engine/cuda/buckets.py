"""The sizes that decode batches are padded to, one graph each."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Buckets:
    """``sizes``: ascending numbers of sequences; ``pages``: the width of their block tables."""

    sizes: tuple[int, ...]
    pages: int

    def __post_init__(self) -> None:
        if not self.sizes or self.sizes[0] < 1 or list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"sizes must ascend from 1 or more, got {self.sizes}")
        if self.pages < 1:
            raise ValueError(f"pages must be >= 1, got {self.pages}")

    @classmethod
    def upto(cls, sequences: int, pages: int) -> Buckets:
        """1, 2, 4, then every eighth up to 256 and every sixteenth above, as vLLM has them; the
        last is ``sequences`` itself."""
        steps = (1, 2, 4, *range(8, 256, 8), *range(256, sequences, 16))
        return cls((*(size for size in steps if size < sequences), sequences), pages)

    def of(self, sequences: int) -> int:
        """The smallest size that holds ``sequences``; 0: none does."""
        at = bisect_left(self.sizes, sequences)
        return self.sizes[at] if at < len(self.sizes) else 0
