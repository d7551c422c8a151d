"""Which traffic a ranker was trained on: what its run remembers, for a gate to ask of later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_PREFIX = "outcomes."


@dataclass(frozen=True, slots=True)
class Lineage:
    """Outcomes of ``served_model`` in ``store`` with prompts of ``prompts``; times are arrivals in
    Unix seconds.

    ``rows`` outcomes from ``trained_from`` to ``trained_until`` trained it, with weights that halve
    every ``half_life`` outcomes; those up to ``calibrated_until`` chose and calibrated; the newest
    that it was tested on came at ``seen_until``.
    """

    store: str
    prompts: str
    served_model: str
    rows: int
    trained_from: float
    trained_until: float
    calibrated_until: float
    seen_until: float
    half_life: float

    def tags(self) -> dict[str, str]:
        """For a run to remember."""
        return {_PREFIX + f.name: f"{getattr(self, f.name)}" for f in fields(self)}

    @classmethod
    def of(cls, tags: Mapping[str, str]) -> Lineage | None:
        """What a run remembers; ``None`` of one that was not trained on outcomes."""
        if _PREFIX + "trained_until" not in tags:
            return None
        kinds: dict[str, Any] = {"str": str, "int": int, "float": float}
        return cls(**{f.name: kinds[str(f.type)](tags[_PREFIX + f.name]) for f in fields(cls)})
