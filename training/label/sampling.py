"""How answers are drawn: what two lengths must share to be draws of the same thing."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_SEEDS = 2**31


@dataclass(frozen=True, slots=True)
class Sampling:
    """``chat``: prompts are the one message of a conversation, else text to be continued.

    ``seed``: of the whole run; every draw of every prompt has its own, see :meth:`seed_of`, unless
    it is ``None``: then none is sent, and draws differ by the endpoint's own chance. Raises
    ``ValueError`` naming the field.
    """

    model: str
    chat: bool = True
    temperature: float = 0.7
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    max_tokens: int = 768
    seed: int | None = 0

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("model must be named")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be at least 0, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p}")
        if not (math.isfinite(self.repetition_penalty) and self.repetition_penalty > 0):
            raise ValueError(f"repetition_penalty must be above 0, got {self.repetition_penalty}")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")

    def seed_of(self, key: str, draw: int) -> int | None:
        """Seed of one draw of the prompt ``key``, whatever else is asked before or beside it."""
        if self.seed is None:
            return None
        digest = hashlib.sha256(f"{self.seed}\0{key}\0{draw}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % _SEEDS

    def differences(self, stored: Mapping[str, Any]) -> list[str]:
        """``name was x and is y now`` of each setting that ``stored`` has another value of."""
        mine = asdict(self)
        names = sorted(mine.keys() | stored.keys())
        return [
            f"{name} was {stored.get(name)!r} and is {mine.get(name)!r} now"
            for name in names
            if stored.get(name) != mine.get(name)
        ]
