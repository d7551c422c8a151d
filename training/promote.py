"""Which version serves: an alias, moved with a reason and a record."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Protocol

CHAMPION = "champion"
_PREFIX = "promotion."
_ALIAS = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")


class Registered(Protocol):
    """What a promotion needs of :class:`ranker.registry.Registry`."""

    def resolve(self, name: str, alias: str) -> str | None: ...
    def versions(self, name: str) -> list[str]: ...
    def set_alias(self, name: str, alias: str, version: str) -> None: ...
    def tags(self, name: str) -> dict[str, str]: ...
    def set_tag(self, name: str, key: str, value: str) -> None: ...
    def metrics(self, name: str, version: str) -> dict[str, float]: ...
    def run_tags(self, name: str, version: str) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class Promotion:
    """One move of an alias. ``gate`` says what was compared; ``at`` is UTC, ISO 8601."""

    name: str
    alias: str
    version: str
    previous: str | None
    by: str
    at: str
    gate: str


class GateError(ValueError):
    """The new version orders worse than the one that serves."""


def promote(
    registry: Registered,
    name: str,
    version: str,
    *,
    by: str,
    now: datetime,
    alias: str = CHAMPION,
    force: bool = False,
) -> Promotion:
    """Let ``alias`` of ``name`` stand for ``version``; appended to the history in its tags.

    When both versions were validated on the same rows, a version whose tau interval lies wholly
    below the tau of the one that serves is refused (:class:`GateError`) unless ``force``. Rolling
    back is promoting an older version; promoting the one that serves changes nothing. Raises
    ``ValueError`` for an unknown version or a reserved alias.
    """
    if not _ALIAS.fullmatch(alias) or re.fullmatch(r"(?i)latest|v\d+", alias):
        raise ValueError(f"alias: {alias!r} is not usable; take letters, digits, - and _")
    there = registry.versions(name)
    if version not in there:
        raise ValueError(f"version: {name} has no version {version}; it has {_list(there)}")
    previous = registry.resolve(name, alias)
    at = now.astimezone(UTC).isoformat(timespec="seconds")
    if previous == version:
        return Promotion(name, alias, version, previous, by, at, "already there")
    gate = "forced" if force else _gate(registry, name, version, previous)
    done = Promotion(name, alias, version, previous, by, at, gate)
    # History first: a move that nobody recorded is worse than a record of one that failed.
    key = f"{_PREFIX}{now.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"
    registry.set_tag(name, key, json.dumps(asdict(done)))
    registry.set_alias(name, alias, version)
    return done


def history(tags: Mapping[str, str]) -> list[Promotion]:
    """Promotions in the tags of a registered name, oldest first."""
    return [Promotion(**json.loads(tags[key])) for key in sorted(tags) if key.startswith(_PREFIX)]


def _gate(registry: Registered, name: str, version: str, previous: str | None) -> str:
    if previous is None:
        return "nothing to compare with"
    new_tags, old_tags = (registry.run_tags(name, v) for v in (version, previous))
    digest = new_tags.get("validation_digest")
    new, old = (registry.metrics(name, v) for v in (version, previous))
    if digest is None or digest != old_tags.get("validation_digest"):
        return f"version {previous} was validated on other rows: not compared"
    high, tau = new.get("validation.tau_high"), old.get("validation.tau")
    if high is None or tau is None:
        return "no validation tau: not compared"
    if high < tau:
        raise GateError(
            f"version {version} orders worse than version {previous}: validation tau at most "
            f"{high:.3f} against {tau:.3f}; promote it anyway with --force"
        )
    return f"validation tau {new['validation.tau']:.3f} against {tau:.3f}"


def _list(versions: list[str]) -> str:
    return ", ".join(versions) if versions else "none; train one with shortfirst train"
