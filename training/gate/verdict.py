"""What the gate found: a table of reasons, and whether they let the challenger pass."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

#: What the cells of a table are called; the last two say what came of them.
COLUMNS = (
    "check", "rows", "champion", "challenger", "difference", "low", "high", "bound", "passed",
    "reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Check:
    """One question put to both rankers; NaN where a number does not apply.

    ``difference`` is challenger minus champion with the 95% interval ``[low, high]``; ``bound``
    is what it is held against.
    """

    name: str
    rows: int
    champion: float
    challenger: float
    difference: float
    low: float
    high: float
    bound: float
    passed: bool
    reason: str

    def cells(self) -> tuple[object, ...]:
        """In the order of :data:`COLUMNS`."""
        return tuple(getattr(self, name) for name in ("name", *COLUMNS[1:]))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of ``version`` of ``name`` against ``champion``, which ``alias`` stood for, if for any.

    Both were asked about the same ``rows`` held-out prompts, ``kind`` says which; ``left_out`` more
    were not used, because the champion was trained on them. ``obstacle`` says why nothing could be
    compared, empty when something was.
    """

    name: str
    version: str
    alias: str
    champion: str | None
    rows: int = 0
    left_out: int = 0
    checks: tuple[Check, ...] = ()
    obstacle: str = ""
    kind: str = "validation rows"

    @property
    def passed(self) -> bool:
        return not self.obstacle and all(check.passed for check in self.checks)

    @property
    def summary(self) -> str:
        """One line: what decided."""
        if self.obstacle:
            return self.obstacle
        failed = [check for check in self.checks if not check.passed]
        if failed:
            return "; ".join(f"{check.name}: {check.reason}" for check in failed)
        if self.checks:
            first = self.checks[0]
            return (
                f"{first.name} {first.challenger:.3f} against {first.champion:.3f} on "
                f"{self.rows} {self.kind}; {len(self.checks)} checks passed"
            )
        if self.champion == self.version:
            return "serves already"
        if self.rows:
            return f"version {self.champion} does not load: nothing to compare with"
        return "nothing to compare with"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "passed": self.passed, "summary": self.summary}
