"""When requests arrived, gave tokens and ended: one at a time, or a million in columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Timing:
    """When one request arrived, gave its first token and ended: seconds of one clock.

    gaps: how many times between its tokens were observed (several tokens may come at once).
    longest_gap: the longest of them. gap_squares: the sum of their squares, seconds². Both are NaN
    where nobody looked, and 0 where there was no gap to see.

    Raises ``ValueError`` when a time is not finite or the three do not ascend.
    """

    request_id: str
    arrival: float
    first_token: float
    finished: float
    prompt_tokens: int
    output_tokens: int
    gaps: int = 0
    longest_gap: float = math.nan
    gap_squares: float = math.nan
    preemptions: int = 0
    tenant: str = ""
    lane: str = ""

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.arrival, self.first_token, self.finished))):
            raise ValueError("timing.arrival, first_token and finished must be finite seconds")
        if not self.arrival <= self.first_token <= self.finished:
            raise ValueError("timing.arrival, first_token and finished must ascend")

    @property
    def ttft(self) -> float:
        """Time to first token, seconds."""
        return self.first_token - self.arrival

    @property
    def e2el(self) -> float:
        """End-to-end latency, seconds."""
        return self.finished - self.arrival

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first, seconds; None below two tokens."""
        if self.output_tokens < 2:
            return None
        return (self.finished - self.first_token) / (self.output_tokens - 1)

    @property
    def per_token(self) -> float:
        """E2EL per output token, seconds: the latency that length-aware schedulers report."""
        return self.e2el / max(1, self.output_tokens)


@dataclass(frozen=True, slots=True, eq=False)
class Timings(Sequence[Timing]):
    """The same in columns, some 90 bytes a request; a :class:`Timing` is built when asked for.

    ``tenant`` and ``lane`` are places in ``tenants`` and ``lanes``. Columns are not to be changed.
    """

    ids: tuple[str, ...]
    arrival: Floats
    first_token: Floats
    finished: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    gaps: Ints
    longest_gap: Floats
    gap_squares: Floats
    preemptions: Ints
    tenant: Ints
    lane: Ints
    tenants: tuple[str, ...]
    lanes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Timing: ...
    @overload
    def __getitem__(self, index: slice) -> Timings: ...
    def __getitem__(self, index: int | slice) -> Timing | Timings:
        if isinstance(index, slice):
            return self.select(np.arange(len(self))[index])
        return Timing(
            self.ids[index],
            float(self.arrival[index]),
            float(self.first_token[index]),
            float(self.finished[index]),
            int(self.prompt_tokens[index]),
            int(self.output_tokens[index]),
            int(self.gaps[index]),
            float(self.longest_gap[index]),
            float(self.gap_squares[index]),
            int(self.preemptions[index]),
            self.tenants[self.tenant[index]],
            self.lanes[self.lane[index]],
        )

    def __iter__(self) -> Iterator[Timing]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether all requests and times are equal, to the last bit."""
        if not isinstance(other, Timings):
            return NotImplemented
        return (
            (self.ids, self.tenants, self.lanes) == (other.ids, other.tenants, other.lanes)
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in (*INTS, "arrival", "first_token", "finished")
            )
            and all(
                np.array_equal(getattr(self, name), getattr(other, name), equal_nan=True)
                for name in ("longest_gap", "gap_squares")
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def select(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> Timings:
        """Those rows, by number or by mask."""
        index = np.flatnonzero(rows) if rows.dtype == bool else rows
        return Timings(
            tuple(self.ids[i] for i in index),
            **{name: getattr(self, name)[index] for name in (*FLOATS, *INTS)},
            tenants=self.tenants,
            lanes=self.lanes,
        )

    def by_tenant(self) -> dict[str, Timings]:
        """Split by tenant; those without a request that ended are left out."""
        return self._split("tenant", self.tenants)

    def by_lane(self) -> dict[str, Timings]:
        """Split by lane; those without a request that ended are left out."""
        return self._split("lane", self.lanes)

    def _split(self, column: str, names: tuple[str, ...]) -> dict[str, Timings]:
        codes: Ints = getattr(self, column)
        parts = {name: codes == code for code, name in enumerate(names)}
        return {name: self.select(mask) for name, mask in parts.items() if mask.any()}

    # -- what follows from the columns, row by row, in seconds ------------------------------------

    @property
    def ttft(self) -> Floats:
        return self.first_token - self.arrival

    @property
    def e2el(self) -> Floats:
        return self.finished - self.arrival

    @property
    def per_token(self) -> Floats:
        return self.e2el / np.maximum(1, self.output_tokens)

    @property
    def tpot(self) -> Floats:
        """NaN below two tokens."""
        count = np.where(self.output_tokens > 1, self.output_tokens - 1.0, np.nan)
        return np.asarray((self.finished - self.first_token) / count)

    @property
    def max_waiting(self) -> Floats:
        """max_waiting_time (Fu et al. 2024, section 4.4): the longest a reader waited for anything,
        TTFT or a gap between tokens. NaN where gaps were not observed."""
        return np.maximum(self.ttft, self.longest_gap)

    @property
    def itl_std(self) -> Floats:
        """Standard deviation of the gaps of each request: it shows a stall that TPOT averages away.
        NaN without gaps."""
        count = np.where(self.gaps > 0, self.gaps, np.nan)
        mean = (self.finished - self.first_token) / count
        return np.sqrt(np.maximum(0.0, self.gap_squares / count - mean**2))


#: Names of the columns by type.
FLOATS = ("arrival", "first_token", "finished", "longest_gap", "gap_squares")
INTS = ("prompt_tokens", "output_tokens", "gaps", "preemptions", "tenant", "lane")
