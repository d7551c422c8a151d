"""Which lane and tenant of a served model are watched on their own: those with the most traffic."""

from __future__ import annotations

from dataclasses import dataclass

from drift.heavy import SpaceSaving
from drift.key import OTHER

#: Lane and tenant; no lane for :data:`REST` alone.
Part = tuple[str | None, str]

REST: Part = (None, OTHER)


@dataclass(frozen=True, slots=True)
class SliceConfig:
    """``most``: slices of one served model watched on their own; the rest is one more.
    ``total``: slices of all served models and versions together. ``least``: outcomes of late from
    which a slice gets its own series. ``counters``: slices that are counted at once, a hundred
    thousand tenants or not. ``half_life``: outcomes after which traffic counts half. ``every``:
    outcomes between two looks at a slice. ``history``: looks kept of each.
    """

    most: int = 16
    total: int = 64
    least: int = 100
    counters: int = 128
    half_life: int = 20_000
    every: int = 50
    history: int = 400

    def __post_init__(self) -> None:
        for name in ("total", "least", "counters", "half_life", "every", "history"):
            if getattr(self, name) < 1:
                raise ValueError(f"slices.{name} must be >= 1, got {getattr(self, name)}")
        if not 0 <= self.most < self.counters:
            raise ValueError(f"slices.most must lie in [0, slices.counters), got {self.most}")
        if self.most >= self.total:
            raise ValueError("slices.most must lie below slices.total")


class Slices:
    """The parts of one served model's traffic. With ``most`` 0 there are none."""

    def __init__(self, config: SliceConfig) -> None:
        self._config = config
        self._traffic: SpaceSaving[Part] = SpaceSaving(config.counters, config.half_life)
        self._own: set[Part] = set()
        self._gone: list[Part] = []

    def of(self, lane: str, tenant: str) -> Part | None:
        """Count one outcome and say which slice it belongs to.

        ``None`` while all traffic is one part: its slice would be the whole.
        """
        part = (lane, tenant)
        self._traffic.add(part)
        known = self.known(lane, tenant)
        return part if known == REST and self._admit(part) else known

    def known(self, lane: str, tenant: str) -> Part | None:
        """The same by what was counted so far, without counting."""
        if len(self._traffic) < 2 or self._config.most == 0:
            return None
        return (lane, tenant) if (lane, tenant) in self._own else REST

    def gone(self) -> list[Part]:
        """Slices that lost their place since the last call."""
        gone, self._gone = self._gone, []
        return gone

    def leave(self, part: Part) -> None:
        """``part`` is not watched any more; it may come back."""
        self._own.discard(part)

    def share(self, part: Part) -> float:
        """Of late traffic, the share of ``part``."""
        if part == REST:
            return max(0.0, 1.0 - sum(self._traffic.share(own) for own in self._own))
        return self._traffic.share(part)

    def _admit(self, part: Part) -> bool:
        sure = self._traffic.sure(part)
        if sure < self._config.least:
            return False
        if len(self._own) >= self._config.most:
            least = min(self._own, key=self._traffic.sure)
            if sure < 2.0 * self._traffic.sure(least):  # else two alike would keep trading places
                return False
            self._own.discard(least)
            self._gone.append(least)
        self._own.add(part)
        return True
