"""One entry of the history: what happened, to what, by whom, and why."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drift.events import CLOSED, Event
from drift.key import Key

#: Served model, lane, tenant.
Slice = tuple[str, str | None, str | None]

#: Who speaks when the monitor does.
MONITOR = "drift monitor"

#: Fields that hold text, or nothing; the first ten tell one entry from another.
TEXTS = (
    "kind", "actor", "served_model", "lane", "tenant", "ranker", "version", "before", "after",
    "cause", "advice", "gate", "message",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened at ``at`` (Unix seconds); texts that do not apply are empty, and
    ``lane`` and ``tenant`` are ``None`` where all traffic is meant.

    ``kind``: ``state``, ``reference``, ``scale``, ``promotion``, ``rollback``, ``retraining``,
    ``shadow`` (a challenger orders better or worse) or ``action``.
    ``actor``: the monitor, or who ran the command. ``before`` and ``after``: states, or versions.
    ``gate``: what a gate said. ``details``: numbers behind it, JSON values.
    """

    at: float
    kind: str
    actor: str
    served_model: str
    before: str
    after: str
    ranker: str = ""
    version: str = ""
    lane: str | None = None
    tenant: str | None = None
    cause: str = ""
    reasons: tuple[str, ...] = ()
    advice: str = ""
    gate: str = ""
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, event: Event) -> Entry:
        """What the monitor said."""
        known = event.as_dict()
        numbers = {k: v for k, v in known.items() if isinstance(v, int | float) and k != "at"}
        return cls(
            at=event.at,
            kind=event.kind,
            actor=MONITOR,
            served_model=event.served_model,
            before=event.previous,
            after=event.state,
            ranker=event.ranker,
            version=event.version,
            lane=event.lane,
            tenant=event.tenant,
            cause=event.cause,
            reasons=event.reasons,
            advice=event.advice,
            message=event.message,
            details=numbers,
        )

    @property
    def slice(self) -> Slice:
        """Served model, lane, tenant: what it is about, whatever ranker version serves it."""
        return self.served_model, self.lane, self.tenant

    @property
    def closed(self) -> bool:
        """Whether its state is over because its stream is not watched any more."""
        return self.kind == "state" and self.cause == CLOSED

    @property
    def label(self) -> str:
        """Which part of the traffic, in words: ``all``, ``tenant acme`` ..."""
        return Key(self.served_model, self.ranker, self.version, self.lane, self.tenant).label

    @property
    def stream(self) -> tuple[str | None, ...]:
        """The slice and the ranker version."""
        return (*self.slice, self.ranker, self.version)

    @property
    def digest(self) -> str:
        """The same for the same thing told twice, however its numbers were rounded then."""
        same = (self.at, *(getattr(self, name) for name in TEXTS[:10]))
        return hashlib.sha256(json.dumps(same).encode()).hexdigest()[:32]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        values: dict[str, Any] = {name: getattr(self, name) for name in ("at", *TEXTS)}
        return {**values, "reasons": list(self.reasons), "details": dict(self.details)}
