"""One attempt to replace a ranker that has decayed: its phases, bounds, and what is said. Pure.

``gathering`` outcomes of the new traffic, ``training``, ``trained`` (its scores are compared with
the champion's on live traffic), ``promoting`` (the gate), and then ``promoted``, ``refused``,
``failed`` or ``recovered`` (the version that serves got well before anything was trained). Whoever
goes back from a version that was promoted like that has the last word: ``rolled back`` holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from drift.entry import Entry

#: Who speaks.
ACTOR = "rank service"


class Phase(StrEnum):
    GATHERING = "gathering"
    TRAINING = "training"
    TRAINED = "trained"
    PROMOTING = "promoting"
    PROMOTED = "promoted"
    REFUSED = "refused"
    FAILED = "failed"
    RECOVERED = "recovered"
    ROLLED_BACK = "rolled back"

    @property
    def over(self) -> bool:
        return self in _OVER


_OVER = (Phase.PROMOTED, Phase.REFUSED, Phase.FAILED, Phase.RECOVERED, Phase.ROLLED_BACK)
_LOST = (Phase.REFUSED, Phase.FAILED, Phase.ROLLED_BACK)


@dataclass(frozen=True, slots=True)
class RetrainConfig:
    """When a ranker that has decayed is retrained, and how long each step may take.

    ``gather``: outcomes since the alert that training waits for (an alert needs a hundred or two,
    too few to learn new traffic from), for ``gather_s`` seconds at most. ``shadow``: outcomes on
    which the challenger is compared with the champion before the gate is asked, 0 at once, for
    ``shadow_s`` at most. ``cooldown_s``: from one attempt to the next of a served model; each one
    that brings nothing doubles it, up to sixteen times. ``train_s`` and ``promote_s``: when a
    process is given up. ``config`` and ``half_life`` (outcomes after which one counts half) go to
    ``shortfirst train``; empty and 0 leave them to it.
    """

    gather: int = 1000
    gather_s: float = 24 * 3600.0
    shadow: int = 300
    shadow_s: float = 24 * 3600.0
    cooldown_s: float = 6 * 3600.0
    train_s: float = 4 * 3600.0
    promote_s: float = 3600.0
    config: str = ""
    half_life: float = 0.0

    def __post_init__(self) -> None:
        for name in ("gather", "shadow", "half_life", "cooldown_s", "gather_s", "shadow_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(
                    f"retrain.{name} must be >= 0 and finite, got {getattr(self, name)}"
                )
        for name in ("train_s", "promote_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(
                    f"retrain.{name} must be > 0 and finite, got {getattr(self, name)}"
                )

    def pause_s(self, fruitless: int) -> float:
        """Until the next attempt after ``fruitless`` ones in a row that brought nothing."""
        return self.cooldown_s * 2.0 ** min(max(fruitless - 1, 0), 4)


@dataclass(frozen=True, slots=True)
class Attempt:
    """To replace ``version`` of ``ranker``, which ``alias`` stood for, for ``served_model``.

    ``outcomes``: how many the version had when it ``began``; ``since``: when the phase began, Unix
    seconds; ``state``: how bad it was then. ``fruitless``: attempts in a row, this one included
    when it is over, that brought no better ranker, or one that was rolled back. ``challenger``: the
    version that was trained. ``own``: ``version`` was itself promoted by retraining.
    """

    served_model: str
    ranker: str
    alias: str
    version: str
    phase: Phase
    began: float
    since: float
    state: str = ""
    outcomes: int = 0
    challenger: str = ""
    reasons: tuple[str, ...] = ()
    gate: str = ""
    fruitless: int = 0
    own: bool = False

    def to(
        self,
        phase: Phase,
        at: float,
        *reasons: str,
        challenger: str = "",
        gate: str = "",
    ) -> Attempt:
        """The next phase, at Unix second ``at``."""
        # A promotion ends the row only when another version decays: until then it may be undone.
        fruitless = self.fruitless + (phase in _LOST)
        if phase is Phase.RECOVERED:
            fruitless = 0
        return replace(
            self,
            phase=phase,
            since=at,
            reasons=reasons,
            gate=gate,
            challenger=challenger or self.challenger,
            fruitless=fruitless,
        )

    def rolled_back(self, version: str, at: float, *, seen: bool = True) -> Attempt:
        """``version`` serves again, in the place of one that was promoted by retraining. ``seen``:
        somebody was seen to move the alias; else nobody knows why it serves."""
        undone = self.challenger if self.phase is Phase.PROMOTED else self.version
        after = self.to(
            Phase.ROLLED_BACK,
            at,
            f"version {undone}, which was promoted by retraining, "
            + (f"was rolled back to {version}: " if seen else f"does not serve, {version} does: ")
            + f"version {version} is not retrained until somebody promotes one",
        )
        return replace(after, version=version, challenger=undone, own=False)

    def released(self, version: str, at: float) -> Attempt:
        """Somebody promoted ``version``: nothing holds any more, the pauses stay as they are."""
        after = self.to(Phase.RECOVERED, at, f"version {version} was promoted: retraining is free")
        return replace(after, fruitless=self.fruitless)

    def holds(self, version: str) -> bool:
        """Whether ``version`` is what somebody went back to."""
        return self.phase is Phase.ROLLED_BACK and self.version == version

    def resting(self, now: float, config: RetrainConfig) -> bool:
        """Whether it is too soon after this attempt for another one."""
        fruitless = 0 if self.phase is Phase.PROMOTED else self.fruitless
        return now - self.since < config.pause_s(fruitless)

    def entry(self, before: Phase | None) -> Entry:
        """For the history."""
        return Entry(
            at=self.since,
            kind="retraining",
            actor=ACTOR,
            served_model=self.served_model,
            before=str(before or ""),
            after=str(self.phase),
            ranker=self.ranker,
            version=self.challenger or self.version,
            reasons=self.reasons,
            gate=self.gate,
            message=f"in the place of version {self.version}",
            details={"replaces": self.version, "began": self.began},
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "phase": str(self.phase), "reasons": list(self.reasons)}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Attempt:
        """Raises ``ValueError``, ``TypeError`` or ``KeyError`` for what :meth:`as_dict` does not
        give."""
        phase = Phase(values["phase"])
        return cls(**{**values, "phase": phase, "reasons": tuple(values["reasons"])})
