"""Which actions are taken, and how far they go."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class RecalibrateConfig:
    """``least``: outcomes since the change from which quantiles are fitted anew, ``window``: the
    newest that count at most. ``every``: outcomes between two fits while it is on, ``rest``: the
    seconds (not when the state has risen). ``off``: how far the coverage of p50 or p90 may be out
    before it is switched on, beyond what chance does to so few. ``right``: mean difference of
    medians in log tokens (twice that of p90) up to which the ranker's own quantiles are as good,
    over ``answers`` of them, so that it is switched off.
    """

    least: int = 80
    window: int = 500
    every: int = 50
    rest: float = 5.0
    off: float = 0.03
    right: float = 0.1
    answers: int = 200

    def __post_init__(self) -> None:
        if self.least < 20:
            raise ValueError(f"act.recalibration.least must be >= 20, got {self.least}")
        if self.window < self.least:
            raise ValueError("act.recalibration.window must not lie below act.recalibration.least")
        for name in ("every", "answers"):
            if getattr(self, name) < 1:
                raise ValueError(f"act.recalibration.{name} must be >= 1")
        if not 0.0 <= self.rest < math.inf:
            raise ValueError("act.recalibration.rest must be >= 0 and finite")
        for name in ("off", "right"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"act.recalibration.{name} must lie inside (0, 1)")


@dataclass(frozen=True, slots=True)
class ActConfig:
    """Each action can be switched off by itself.

    ``shrink``: in ``warn`` and ``degraded`` forecasts have the trust of that name, or the share of
    the usual SJF efficiency that is left, if that is less. ``fallback``: in ``fcfs`` they have
    none; without it, that of ``degraded``. ``recalibrate``: quantiles are fitted to recent outcomes
    while the ranker's own are off. ``early``: with ``shrink`` or ``fallback``, they have the trust
    ``caution`` at most while order seems lost by outcomes as they end, ahead of an alarm and after
    it; it is 0 since with .2 a reversed order still cost the tail. ``vouch``: outcomes of its own
    after which a slice whose chart is calm answers for itself again when its whole version is in
    trouble.

    The trusts keep p99 E2EL near that of FCFS when order decays (``engine.core.policies.boost``
    says what they scale): simulated under waves at 92 % load with ``fast``, forecasts of tau .2 and
    of 0, it is 1.06 to 1.07 of it at .6 and 1.00 at .2.
    """

    shrink: bool = True
    fallback: bool = True
    recalibrate: bool = True
    early: bool = True
    warn: float = 0.6
    degraded: float = 0.2
    caution: float = 0.0
    vouch: int = 50
    recalibration: RecalibrateConfig = field(default_factory=RecalibrateConfig)

    def __post_init__(self) -> None:
        if not 0.0 <= self.degraded <= self.warn <= 1.0:
            raise ValueError(
                f"act.degraded and act.warn must ascend inside [0, 1], got {self.degraded} and "
                f"{self.warn}"
            )
        if not 0.0 <= self.caution <= 1.0:
            raise ValueError(f"act.caution must lie inside [0, 1], got {self.caution}")
        if self.vouch < 1:
            raise ValueError(f"act.vouch must be >= 1, got {self.vouch}")

    @property
    def any(self) -> bool:
        """Whether anything is ever done."""
        return self.shrink or self.fallback or self.recalibrate

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> ActConfig:
        """From a table ``[act]`` as TOML gives it. Raises ``ValueError`` on keys it doesn't know
        and values of another type."""
        inner = values.get("recalibration", {})
        if not isinstance(inner, Mapping):
            raise ValueError("act.recalibration must be a table")
        rest = {key: value for key, value in values.items() if key != "recalibration"}
        parts = _checked(RecalibrateConfig, inner, "act.recalibration")
        return cls(**_checked(cls, rest, "act"), recalibration=RecalibrateConfig(**parts))


def _checked(kind: type, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    known = {f.name: f.default for f in fields(kind)}
    for key, value in values.items():
        if key not in known:
            raise ValueError(f"{where}.{key} is not a setting; known are {', '.join(known)}")
        default = known[key]
        right = (
            isinstance(value, bool)
            if isinstance(default, bool)
            else isinstance(value, int | float if isinstance(default, float) else int)
            and not isinstance(value, bool)
        )
        if not right:
            what = {bool: "true or false", int: "a whole number"}.get(type(default), "a number")
            raise ValueError(f"{where}.{key} must be {what}, got {value!r}")
    return dict(values)
