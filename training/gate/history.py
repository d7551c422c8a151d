"""The history of an alias: a chain of entries, each sealed by the next one's digest of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

PROMOTE, FORCE, ROLLBACK = "promote", "force", "rollback"
_KEY = re.compile(r"promotion\.\d{6}\.(?P<digest>[0-9a-f]{16})")


@dataclass(frozen=True, slots=True)
class Promotion:
    """One move of an alias, the ``number``-th of its name.

    ``kind`` is ``promote``, ``force`` (past the gate) or ``rollback``; ``gate`` says what was
    compared; ``at`` is UTC, ISO 8601. ``before`` is the digest of the entry before, empty for the
    first.
    """

    number: int
    name: str
    alias: str
    version: str
    previous: str | None
    kind: str
    by: str
    at: str
    gate: str
    before: str = ""

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def digest(self) -> str:
        return _digest(self.text)

    @property
    def key(self) -> str:
        """Name of the tag that holds it; no two entries share one, so none overwrites another."""
        return f"promotion.{self.number:06d}.{self.digest}"


@dataclass(frozen=True, slots=True)
class History:
    """Entries, oldest first. ``fault`` says what was altered or taken away, empty when nothing."""

    moves: tuple[Promotion, ...]
    fault: str = ""

    @property
    def end(self) -> tuple[int, str]:
        """Number of the next entry, and the digest that it has to carry."""
        return (self.moves[-1].number + 1, self.moves[-1].digest) if self.moves else (1, "")

    def of(self, alias: str) -> tuple[Promotion, ...]:
        return tuple(move for move in self.moves if move.alias == alias)


def history(tags: Mapping[str, str]) -> History:
    """What the tags of a registered name tell.

    Followed from the newest entry back, so that an entry that was changed, or one that is gone,
    breaks the chain there; only a newest one that is gone leaves no trace. Of two that were
    appended at the same time, the one with the lower digest stands.
    """
    entries: dict[str, Promotion] = {}
    changed = 0
    for key, text in tags.items():
        if match := _KEY.fullmatch(key):
            if _digest(text) == match["digest"]:
                entries[match["digest"]] = Promotion(**json.loads(text))
            else:
                changed += 1
    moves: list[Promotion] = []
    at = min(entries, key=lambda digest: (-entries[digest].number, digest), default="")
    while at in entries:
        moves.append(entries[at])
        at = entries[at].before
    fault = ""
    if at or changed:
        where = f"before number {moves[-1].number}" if at else "in it"
        fault = f"the history was altered: an entry {where} was changed or taken away"
    return History(tuple(reversed(moves)), fault)


def served(moves: Iterable[Promotion]) -> list[str]:
    """Versions to go back through, the present one last.

    A promotion adds one; a rollback takes away what it went back over, so that the next one goes
    on from there and not forth again. What served before the first promotion, set by other means,
    is the first.
    """
    stack: list[str] = []
    for move in moves:
        if not stack and move.previous is not None and move.kind != ROLLBACK:
            stack.append(move.previous)
        if move.kind == ROLLBACK and move.version in stack:
            while stack[-1] != move.version:
                stack.pop()
        elif not stack or stack[-1] != move.version:
            stack.append(move.version)
    return stack


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
