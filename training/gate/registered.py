"""What the gate asks of a registry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from training.forecasts import Forecaster

#: The alias that serves unless another is asked for.
CHAMPION = "champion"
#: The alias of the version that is scored in the shadow of the one that serves.
CHALLENGER = "challenger"
_ALIAS = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")


class Registered(Protocol):
    """The part of :class:`ranker.registry.Registry` that decides which version serves."""

    def resolve(self, name: str, alias: str) -> str | None: ...
    def versions(self, name: str) -> list[str]: ...
    def set_alias(self, name: str, alias: str, version: str) -> None: ...
    def tags(self, name: str) -> dict[str, str]: ...
    def set_tag(self, name: str, key: str, value: str) -> None: ...
    def run_tags(self, name: str, version: str) -> dict[str, str]: ...
    def attach(self, name: str, version: str, path: str, value: Mapping[str, object]) -> None: ...
    def attached(self, name: str, version: str, path: str) -> bytes | None: ...
    def load(self, uri: str) -> Forecaster: ...


def check_move(registry: Registered, name: str, version: str, alias: str) -> None:
    """Raises ``ValueError`` when ``alias`` is reserved or odd, or there is no such version."""
    if not _ALIAS.fullmatch(alias) or re.fullmatch(r"(?i)latest|v\d+", alias):
        raise ValueError(f"alias: {alias!r} is not usable; take letters, digits, - and _")
    there = registry.versions(name)
    if version not in there:
        known = ", ".join(there) if there else "none; train one with shortfirst train"
        raise ValueError(f"version: {name} has no version {version}; it has {known}")
