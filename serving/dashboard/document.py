"""What the page gets: the board, and what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drift.board import Board
from drift.entry import Entry
from drift.history import read_history
from drift.key import Key

#: Kinds of entries that are shown, each group with how many of it at most: a state that flaps must
#: not push promotions out.
_SHOWN = (
    (("state", "scale"), 200),
    (("promotion", "rollback", "retraining", "shadow", "action"), 100),
)

#: What tells one series from another.
_KEY = ("served_model", "ranker", "version", "lane", "tenant")

#: Fields of an entry that the page gets; ``details`` may hold anything and stays here.
_FIELDS = (
    "at", "kind", "actor", "served_model", "lane", "tenant", "label", "ranker", "version",
    "before", "after", "cause", "reasons", "advice", "gate", "message",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """Calling it gives the document, ready for JSON: ``Board.as_dict()``, ``log``, the newest
    entries of the history, oldest first, and under ``shadows`` and ``retraining`` the challengers
    at work and the last attempts at retraining. ``history`` may not exist yet. Each series also has
    its ``trust``, ``None`` where nothing acts on drift.

    Takes some 10 ms a served model, so not on an event loop. Raises ``ValueError`` when ``history``
    is something else.
    """

    board: Callable[[], Board]
    history: Path | None = None
    shadows: Callable[[], Sequence[Mapping[str, Any]]] = tuple
    retraining: Callable[[], Sequence[Mapping[str, Any]]] = tuple
    trusts: Callable[[], Mapping[Key, float]] = dict

    def __call__(self) -> dict[str, Any]:
        board, trusts = self.board().as_dict(), self.trusts()
        for model in board["models"]:
            for row in (model["overall"], *model["slices"]):
                row["trust"] = trusts.get(Key(*(row[name] for name in _KEY)))
        return {
            **board,
            "log": [_plain(entry) for entry in self._entries()],
            "shadows": list(self.shadows()),
            "retraining": list(self.retraining()),
        }

    def _entries(self) -> Sequence[Entry]:
        if self.history is None:
            return ()
        found = [
            entry for kinds, most in _SHOWN for entry in read_history(self.history, most, kinds)
        ]
        return sorted(found, key=lambda entry: entry.at)


def _plain(entry: Entry) -> dict[str, Any]:
    values = {name: getattr(entry, name) for name in _FIELDS}
    return {**values, "reasons": list(entry.reasons)}
