"""One thing that is done otherwise from now on."""

from __future__ import annotations

from dataclasses import dataclass

from drift.entry import Entry
from drift.key import Key

#: Who acts, in the history.
ACTOR = "drift actions"

TRUST, QUANTILES = "trust", "quantiles"

#: Cause of a change of trust that no alarm is behind, see ``drift.early``. It comes and goes by
#: itself, so the history and the log have it, and nobody is told.
CAUTION = "caution"


@dataclass(frozen=True, slots=True)
class Change:
    """``what`` is :data:`TRUST` (``before`` and ``after`` are numbers as text) or
    :data:`QUANTILES` (``the ranker's`` or ``recalibrated``). ``why`` in words; ``advice``: what an
    operator can do about it. ``cause``: :data:`CAUTION`, or empty: ``what``."""

    key: Key
    what: str
    before: str
    after: str
    why: str
    advice: str = ""
    cause: str = ""

    def entry(self, at: float) -> Entry:
        """For the history, the log and whoever is told, at Unix second ``at``."""
        key = self.key
        return Entry(
            at=at,
            kind="action",
            actor=ACTOR,
            served_model=key.served_model,
            before=f"{self.what} {self.before}",
            after=f"{self.what} {self.after}",
            ranker=key.ranker,
            version=key.version,
            lane=key.lane,
            tenant=key.tenant,
            cause=self.cause or self.what,
            reasons=(self.why,),
            advice=self.advice,
            message=f"{key.label}: {self.what} {self.before} -> {self.after}",
        )
