"""What computes attention over pages, whoever wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from engine.attention.interface import Spec


@dataclass(frozen=True, slots=True)
class Pages:
    """Which keys the packed rows of S sequences attend to; all tensors int32 and contiguous.

    A sequence's rows are its newest positions. ``firsts [S + 1]``: the row that each begins at,
    then the number of rows. ``used [S]``: its positions, those of the rows included, at least 1.
    ``ends [S + 1]``: running sum of ``used``, from 0. ``table [S, M]``: its pages in order, any
    valid page behind its last. Known without asking the device are ``rows``, of each sequence,
    and ``most_rows`` and ``most_used``, at least as large as any of ``rows`` and ``used``.

    A sequence may have no rows. A kernel that is static must not look at ``rows``.
    """

    firsts: torch.Tensor
    used: torch.Tensor
    ends: torch.Tensor
    table: torch.Tensor
    rows: tuple[int, ...]
    most_rows: int
    most_used: int


class Kernel(Protocol):
    """``page``: a page must hold a multiple of so many tokens.

    ``static``: whether its work depends on shapes alone, so that a graph can hold it.
    """

    @property
    def name(self) -> str: ...

    @property
    def page(self) -> int: ...

    @property
    def static(self) -> bool: ...

    def refuses(self, spec: Spec) -> str:
        """What of ``spec`` it cannot compute; empty: nothing."""
        ...

    def __call__(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        pages: Pages,
        spec: Spec,
    ) -> torch.Tensor:
        """``q [T, heads, dim]`` against ``keys`` and ``values [pages, page, kv heads, dim]``; as
        ``q``. A row sees the positions of its sequence up to its own."""
        ...
