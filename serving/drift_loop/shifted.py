"""Sends the new traffic while the service finds out, retrains and promotes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from drift.entry import Entry
from drift.retraining import Phase
from serving.drift_loop.feed import Feed
from serving.drift_loop.service import Running
from serving.processes import ServiceFailed
from training.sources import Example

_CHUNK = 25
#: Until the alert requests come slowly enough for it to be told, and while the challenger is tried
#: for them to be scored; while outcomes are gathered they come four times as fast.
_PAUSE_S = 0.2
#: How long a phase that has all it asked for may take to notice, before more is sent.
_NOTICE_S = 5.0
#: When there are no more.
_PATIENCE_S = 120.0


@dataclass(slots=True)
class Shifted:
    """``sent`` requests so far, ``alert`` of them until the alert; ``version`` is the one that was
    promoted, ``seconds`` after the alert by the clock."""

    running: Running
    feed: Feed
    examples: Sequence[Example] = field(repr=False)
    gather: int
    say: Callable[[str], None]
    sent: int = 0
    alert: int = 0
    version: str = ""
    seconds: float = 0.0
    _alerted: float = 0.0
    _told: set[str] = field(default_factory=set)

    def until_promoted(self) -> None:
        """Raises :class:`serving.processes.ServiceFailed` when the gate refuses, something fails or
        the traffic is at its end before that."""
        while not self.version:
            phase = self._heard()
            if self.version:
                return
            if phase in (Phase.REFUSED, Phase.FAILED, Phase.RECOVERED):
                raise ServiceFailed(f"retraining: {phase}")
            if phase in (Phase.TRAINING, Phase.PROMOTING, Phase.PROMOTED):
                self._rest(_PAUSE_S)
                continue
            enough = phase is Phase.GATHERING and self.sent - self.alert > self.gather
            if enough and self._rest(_NOTICE_S):
                continue
            self._rest(_PAUSE_S / 4 if phase is Phase.GATHERING else _PAUSE_S)
            chunk = self.examples[self.sent : self.sent + _CHUNK]
            if not chunk:
                if not self._rest(_PATIENCE_S):
                    raise ServiceFailed(f"no promotion in {self.sent:,} requests of new traffic")
                continue
            self.feed.send(chunk)
            self.sent += len(chunk)

    def _heard(self) -> Phase | None:
        """Take in what was told; the phase of retraining, ``None`` before there is one."""
        phase = None
        for entry in self._entries():
            if entry.kind == "retraining":
                phase = Phase(entry.after)
            # By what they say: what the monitor tells is as old as the outcome that it is about.
            if entry.digest not in self._told:
                self._told.add(entry.digest)
                self._take(entry)
        return phase

    def _entries(self) -> list[Entry]:
        return self.running.history("state", "retraining", "shadow", "promotion")

    def _take(self, entry: Entry) -> None:
        why = "; ".join((*entry.reasons, *filter(None, (entry.gate,))))
        self.say(f"{entry.kind}: {entry.before or '-'} -> {entry.after}. {why}")
        if entry.kind == "state" and entry.after in ("degraded", "fcfs") and not self.alert:
            self.alert, self._alerted = self.sent, time.monotonic()
        if entry.kind == "promotion" and entry.version != "1":
            self.version, self.seconds = entry.version, time.monotonic() - self._alerted

    def _rest(self, seconds: float) -> bool:
        """Wait so long, or until something is told, which is said to be true."""
        self.running.service.check()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(_PAUSE_S / 8)
            if any(entry.digest not in self._told for entry in self._entries()):
                return True
        return False
