"""Bounds on what a caller may send, checked before any work is done."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Limits:
    """Counts are per request; ``bytes`` are of the encoded message or body."""

    max_items: int = 256
    max_outcomes: int = 1024
    max_levels: int = 256  #: quantiles of a forecast
    max_open: int = 1024  #: requests under way in one report
    max_tokens: int = 10_000_000  #: of a reported prompt or answer; beyond lies a broken reporter
    max_prompt_chars: int = 1 << 20
    max_name_chars: int = 256  #: ids, models, tenants, lanes
    max_message_bytes: int = 4 << 20
    max_messages: int = 1024  #: turns of a chat

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} must be at least 1")
