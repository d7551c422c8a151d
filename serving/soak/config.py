"""How much to soak, and what counts as a leak."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SoakConfig:
    """``clients``: requests under way at once. ``growth_mib``: how much more resident memory the
    process may have in the last third of the requests than in the first, by their medians.

    Raises ``ValueError`` naming the field.
    """

    requests: int = 10_000
    clients: int = 48
    seed: int = 0
    growth_mib: float = 32.0

    def __post_init__(self) -> None:
        if self.requests < 30:
            raise ValueError(f"requests must be at least 30, got {self.requests}")
        if self.clients < 1:
            raise ValueError(f"clients must be at least 1, got {self.clients}")
        if not self.growth_mib > 0.0:
            raise ValueError(f"growth_mib must be above 0, got {self.growth_mib}")
