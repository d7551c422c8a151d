"""A trace: requests as they came, moved in time and cut to what an engine is to be tried on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.core.config import SchedulerConfig
from engine.core.request import Request
from engine.prefixes import Sharing, shared_chains
from engine.workload import Floats, Ints, Lengths
from ranker.types import Forecast


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of arrival. ``arrivals``: seconds, ascending; ``None`` where only lengths
    are known. The rest is ``None`` where the trace does not say; "" means the same of one request.

    Raises ``ValueError`` when the columns differ in size or arrivals descend.
    """

    name: str
    arrivals: Floats | None
    lengths: Lengths
    tenants: tuple[str, ...] | None = None
    sessions: tuple[str, ...] | None = None
    prefixes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for field in ("arrivals", "tenants", "sessions", "prefixes"):
            column = getattr(self, field)
            if column is not None and len(column) != len(self.lengths):
                raise ValueError(f"{field} must have one entry per request of {self.name}")
        if self.arrivals is not None and not (np.diff(self.arrivals) >= 0.0).all():
            raise ValueError(f"arrivals of {self.name} must ascend")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def span(self) -> float:
        """Seconds from the first arrival to the last."""
        arrivals = self._arrivals()
        return float(arrivals[-1] - arrivals[0])

    def take(self, rows: Ints) -> Trace:
        """Those rows; arrivals stay as they are, and must ascend still."""

        def column(values: tuple[str, ...] | None) -> tuple[str, ...] | None:
            return None if values is None else tuple(values[row] for row in rows)

        return Trace(
            self.name,
            None if self.arrivals is None else self.arrivals[rows],
            self.lengths.take(rows),
            column(self.tenants),
            column(self.sessions),
            column(self.prefixes),
        )

    def window(self, start: int, count: int) -> Trace:
        """``count`` requests from row ``start`` on, the first at 0 seconds.

        Raises ``ValueError`` when the trace has not that many.
        """
        if start < 0 or count < 1 or start + count > len(self):
            raise ValueError(
                f"window must lie in the {len(self)} requests of {self.name}, "
                f"got {count} from {start}"
            )
        part = self.take(np.arange(start, start + count))
        if part.arrivals is None:
            return part
        return replace(part, arrivals=part.arrivals - part.arrivals[0])

    def fitting(self, config: SchedulerConfig) -> Trace:
        """Without requests that the KV pool can never hold. Raises ``ValueError`` if none is left.

        Compare ``len`` to know how many went.
        """
        total = self.lengths.prompt_tokens + self.lengths.output_tokens
        rows = np.flatnonzero(total <= config.capacity)
        if not len(rows):
            raise ValueError(f"no request of {self.name} fits {config.capacity} tokens of KV pool")
        return self.take(rows)

    def scaled(self, factor: float) -> Trace:
        """All gaps between arrivals times ``factor``: 0.5 doubles the rate.

        Raises ``ValueError`` unless it is above 0.
        """
        if not factor > 0.0:
            raise ValueError(f"factor must be above 0, got {factor}")
        arrivals = self._arrivals()
        return replace(self, arrivals=arrivals[0] + (arrivals - arrivals[0]) * factor)

    def at_rate(self, rate: float) -> Trace:
        """Scaled to ``rate`` requests per second on average."""
        if not rate > 0.0:
            raise ValueError(f"rate must be above 0 requests per second, got {rate}")
        if self.span <= 0.0:
            raise ValueError(f"{self.name} arrives all at once: its rate cannot be scaled")
        return self.scaled(len(self) / rate / self.span)

    def jittered(self, quantum: float, rng: np.random.Generator) -> Trace:
        """Arrivals moved by up to ``quantum`` seconds, uniformly, and put in order again.

        For traces whose clock ticks so coarsely: mooncake_conversation's does every 3 s.
        """
        moved = self._arrivals() + rng.uniform(0.0, quantum, len(self))
        order = np.argsort(moved, kind="stable")
        return replace(
            replace(self, arrivals=None).take(order), arrivals=moved[order] - moved.min()
        )

    def with_arrivals(self, arrivals: Floats) -> Trace:
        """The same requests at other times, which must ascend."""
        return replace(self, arrivals=arrivals)

    def requests(
        self,
        forecasts: Sequence[Forecast] | None = None,
        *,
        block_size: int = 16,
        sharing: Sharing = Sharing.WHOLE,
    ) -> list[Request]:
        """As requests, row by row; ids are row numbers.

        ``block_size``: of the engine that will see them, for the hashes of prefixes. ``sharing``:
        what ``prefixes`` are taken to say, see :class:`engine.prefixes.Sharing`.
        """
        if forecasts is not None and len(forecasts) != len(self):
            raise ValueError(f"forecasts must be as many as requests of {self.name}")
        chains = (
            None
            if self.prefixes is None
            else shared_chains(
                self.prefixes, self.lengths.prompt_tokens.tolist(), block_size, sharing
            )
        )
        columns = zip(
            self._arrivals().tolist(),
            self.lengths.prompt_tokens.tolist(),
            self.lengths.output_tokens.tolist(),
            strict=True,
        )
        return [
            Request(
                id=str(row),
                arrival=arrival,
                prompt_tokens=prompt,
                forecast=None if forecasts is None else forecasts[row],
                true_tokens=output,
                tenant="" if self.tenants is None else self.tenants[row],
                block_hashes=() if chains is None else chains[row],
            )
            for row, (arrival, prompt, output) in enumerate(columns)
        ]

    def _arrivals(self) -> Floats:
        if self.arrivals is None:
            raise ValueError(f"{self.name} has lengths only; give it arrivals with with_arrivals")
        return self.arrivals
