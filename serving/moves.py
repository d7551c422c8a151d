"""Promotions and rollbacks: what the registry knows of a move, told when the service follows it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from drift.entry import Entry
from serving.logs import failure
from serving.rankers import Swap
from training.gate.history import FORCE, ROLLBACK, Promotion, history

log = logging.getLogger(__name__)

#: Who moved an alias of which the history of its name says nothing.
UNKNOWN = "somebody"


class Tags(Protocol):
    """What of ``ranker.registry.Registry`` knows who moved an alias."""

    def tags(self, name: str) -> dict[str, str]: ...


def entry_of(move: Promotion, served_model: str) -> Entry:
    """A move as the drift history has it."""
    return Entry(
        at=datetime.fromisoformat(move.at).timestamp(),
        kind="rollback" if move.kind == ROLLBACK else "promotion",
        actor=move.by,
        served_model=served_model,
        before=move.previous or "",
        after=move.version,
        ranker=move.name,
        version=move.version,
        gate=move.gate,
        message=f"alias {move.alias}" + (", past the gate" if move.kind == FORCE else ""),
        details={"alias": move.alias, "number": move.number, "forced": move.kind == FORCE},
    )


class Moves:
    """Tells ``announce`` of each swap: who, when, on what grounds.

    Called in the thread that reads the registry. An alias that was moved by other means than
    ``shortfirst promote`` and ``rollback`` is told of all the same, with less; back to an older
    version, it is a rollback. ``clock`` gives Unix seconds.
    """

    def __init__(
        self, registry: Tags, announce: Callable[[Entry], None], clock: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._announce = announce
        self._clock = clock
        self._told: dict[tuple[str, str, str], str] = {}  # the last move, by its digest

    def swapped(self, swap: Swap) -> Entry:
        """Version ``swap.after`` serves; returns what was told of that."""
        entry = self._entry(swap)
        self._announce(entry)
        return entry

    def missed(self, name: str, alias: str, served_model: str, since: float) -> list[Entry]:
        """After a start: tell, and return, what moved since Unix second ``since``, while nobody
        followed."""
        entries = [entry_of(move, served_model) for move in self._moves(name, alias)]
        missed = [entry for entry in entries if entry.at > since]
        for entry in missed:
            self._announce(entry)
        return missed

    def _entry(self, swap: Swap) -> Entry:
        # The newest move alone: an older one to the same version is not what happened now, and
        # neither is one that was told of before.
        newest = next(iter(reversed(self._moves(swap.name, swap.alias))), None)
        key = (swap.served_model, swap.name, swap.alias)
        if (
            newest is not None
            and newest.version == swap.after
            and newest.digest != self._told.get(key)
        ):
            self._told[key] = newest.digest
            # What served here may be another one than the registry's move began with: the alias
            # moved twice between two looks, or while nobody looked.
            return replace(entry_of(newest, swap.served_model), before=swap.before)
        return Entry(
            at=self._clock(),
            kind="rollback" if _older(swap.after, swap.before) else "promotion",
            actor=UNKNOWN,
            served_model=swap.served_model,
            before=swap.before,
            after=swap.after,
            ranker=swap.name,
            version=swap.after,
            message=f"alias {swap.alias} was moved past the history",
            details={"alias": swap.alias},
        )

    def _moves(self, name: str, alias: str) -> Sequence[Promotion]:
        try:
            tags: Mapping[str, str] = self._registry.tags(name)
        except Exception as error:  # whoever moved it, it is told that it moved
            log.warning("the history of %s was not read: %s", name, failure(error))
            return ()
        return history(tags).of(alias)


def _older(one: str, other: str) -> bool:
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)
