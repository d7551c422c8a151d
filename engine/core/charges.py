"""What requests are charged for: expected service at admission, real service at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.core.budgets import Buckets
from engine.core.fairness import FairnessConfig
from engine.core.hierarchy import Hierarchy
from engine.core.line import Line
from engine.core.request import Request
from ranker.types import FinishReason


@dataclass(slots=True)
class Charge:
    """One admitted request, until it ends."""

    request: Request
    billed: Line  #: the line it was first admitted from
    output: float  #: expected tokens that were charged
    runs_in: Line | None  #: None while it waits to be resumed


class Charges:
    """Accounts of lanes, tenants and budgets, of everybody admitted and not yet ended.

    A request is charged once, however often it is preempted. Service is in weighted tokens;
    budgets count plain ones.
    """

    def __init__(
        self,
        config: FairnessConfig,
        hierarchy: Hierarchy,
        buckets: Buckets | None,
        counts: bool,
    ) -> None:
        """``counts``: False when nobody will ever ask what anybody was charged."""
        self._config = config
        self._hierarchy = hierarchy
        self._buckets = buckets
        self._counts = counts
        self._open: dict[str, Charge] = {}
        self._expected = config.expected_output
        self._ended = 0

    def __iter__(self) -> Iterator[Charge]:
        return iter(self._open.values())

    def __contains__(self, request: Request) -> bool:
        """Whether it was admitted and has not ended."""
        charge = self._open.get(request.id)
        return charge is not None and charge.request is request

    def admitted(self, request: Request, line: Line, now: float) -> None:
        """It runs now: charged, unless it was before."""
        charge = self._open.get(request.id)
        if charge is not None:
            self._runs_in(charge, line)
            return
        output = 0.0
        if self._counts:
            forecast = request.forecast
            output = self._expected if forecast is None else forecast.mean
        charge = self._open[request.id] = Charge(request, line, output, None)
        self._runs_in(charge, line)
        if self._counts:
            self._bill(charge, request.prompt_tokens, output, now)
            if line.crowded:
                line.forget_idle({charge.request.tenant for charge in self}, now)

    def paused(self, request: Request) -> None:
        """It runs no more, but has not ended."""
        self._runs_in(self._open[request.id], None)

    def moved(self, request: Request, line: Line) -> None:
        """It runs in another lane from now on; the one that admitted it stays charged."""
        charge = self._open.get(request.id)
        if charge is not None and charge.runs_in is not None:
            self._runs_in(charge, line)

    def settle(self, request: Request, now: float) -> None:
        """It ended: what it was charged becomes what it used; nothing if it was never admitted."""
        charge = self._open.get(request.id)
        if charge is None or charge.request is not request:
            return
        del self._open[request.id]
        self._runs_in(charge, None)
        if self._counts:
            self._learn(request)
            self._bill(charge, 0.0, request.output_tokens - charge.output, now)

    def _learn(self, request: Request) -> None:
        """An aborted or failed answer says nothing about how long answers are."""
        if request.finish_reason in (FinishReason.STOP, FinishReason.LENGTH):
            self._ended += 1
            # A plain mean at first, then one that forgets, since traffic changes.
            self._expected += (request.output_tokens - self._expected) / min(self._ended, 256)

    def _bill(self, charge: Charge, prompt: float, output: float, now: float) -> None:
        line, tenant = charge.billed, charge.request.tenant
        service = self._config.input_weight * prompt + self._config.output_weight * output
        self._hierarchy.charge(line, service)
        line.charge(tenant, service)
        if self._buckets is not None:
            self._buckets.charge(tenant, prompt + output, now)
            for other in self._hierarchy.lines:
                other.budget_changed(tenant)

    def _runs_in(self, charge: Charge, line: Line | None) -> None:
        if charge.runs_in is not None:
            charge.runs_in.running -= 1
        if line is not None:
            line.running += 1
        charge.runs_in = line
