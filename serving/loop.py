"""What closes the loop around the rank service: who serves, who is tried, and retraining."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from drift.acting.standing import Standing
from drift.history import read_history
from drift.key import Key
from drift.retraining import RetrainConfig
from drift.shadow import shadow_path
from drift.sink import MonitoredStore
from drift.states import State
from ranker.length_ranker import POOLED
from serving.challengers import Challengers
from serving.moves import Moves, Tags
from serving.rankers import Rankers, Source, Swap, Watched, name_and_alias
from serving.retrain import Commands, Decayed, Retrainer
from serving.shadow import Shadower
from serving.telling import Telling

#: Share of unscored requests from which they are the trouble.
_UNSCORED = 0.5


class Registered(Source, Tags, Protocol):
    """What of ``ranker.registry.Registry`` the loop needs."""


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """``outcomes`` and ``history`` are those of the service; ``retrain``: none switches it off.
    ``tracking_uri`` goes to the commands that retraining runs; empty: as the environment says."""

    outcomes: Path
    history: Path
    retrain: RetrainConfig | None = None
    tracking_uri: str = ""


@dataclass(frozen=True, slots=True)
class Loop:
    """What runs beside the service."""

    sink: MonitoredStore
    challengers: Challengers
    shadower: Shadower
    moves: Moves
    retrainer: Retrainer | None

    def swapped(self, swap: Swap) -> None:
        """Another version serves: told, and what the monitor says of the one before is over."""
        self.moves.swapped(swap)
        self.sink.superseded(swap.served_model, swap.name, swap.after)

    def shadows(self) -> Sequence[Mapping[str, Any]]:
        return self.shadower.rows()

    def prompts(self) -> Mapping[str, int]:
        return dict(self.shadower.counts)

    def retraining(self) -> Sequence[Mapping[str, Any]]:
        return self.retrainer.rows() if self.retrainer is not None else ()


@contextmanager
def loop(
    config: LoopConfig,
    registry: Registered,
    watched: Sequence[Watched],
    rankers: Rankers,
    telling: Telling,
    clock: Callable[[], float],
) -> Iterator[Loop]:
    """Ready for ``serving.rank_server.run``, which starts the shadower; at the end a process that
    trains is ended. Raises ``ValueError`` when there is nothing to retrain, or the file of attempts
    is something else."""
    names = [name_and_alias(item.uri) for item in watched]
    challengers = Challengers(registry, [name for name, _ in names])
    shadower = Shadower(challengers, telling.announce, clock, shadow_path(config.outcomes))
    moves = Moves(registry, telling.announce, clock)
    since = max((entry.at for entry in read_history(config.history, 1)), default=math.inf)
    for item, (name, alias) in zip(watched, names, strict=True):
        moves.missed(name, alias, item.served_model, since)
    for ranker in rankers.loaded():  # a version that was replaced meanwhile alarms no more
        telling.sink.superseded(ranker.served_model, ranker.name, str(ranker.version))
    with ExitStack() as undo:
        retrainer = None
        if config.retrain is not None:
            if not any(item.served_model != POOLED for item in watched):
                raise ValueError(
                    "--retrain: no --ranker of a served model follows an alias "
                    "(models:/NAME@ALIAS): what it trains would never serve"
                )
            retrainer = Retrainer(
                config.retrain,
                Commands(config.outcomes, config.tracking_uri),
                lambda: of_order(telling.sink, decayed(telling.sink.standings(), watched, rankers)),
                shadower.found,
                telling.announce,
                clock,
            )
            undo.callback(retrainer.close)
            retrainer.start()
        yield Loop(telling.sink, challengers, shadower, moves, retrainer)


def of_order(sink: MonitoredStore, found: list[Decayed]) -> list[Decayed]:
    """Without those that are degraded because most requests go unscored: no training mends that."""
    if not found:
        return []  # windows are measured for those in trouble alone
    unscored = {snapshot.key: snapshot.cohort.unscored_share for snapshot in sink.snapshots()}
    return [
        one
        for one in found
        if not unscored.get(Key(one.served_model, one.ranker, one.version), 0.0) >= _UNSCORED
    ]


def decayed(
    standings: Sequence[Standing], watched: Sequence[Watched], rankers: Rankers
) -> list[Decayed]:
    """Versions that serve, follow an alias, and are ``degraded`` or worse as a whole.

    Of a pooled ranker none: it belongs to several served models, and the trouble of one is no
    reason to train for all of them.
    """
    found = []
    for standing in standings:
        key = standing.key
        if key.sliced or standing.state < State.DEGRADED:
            continue
        for item in watched:
            name, alias = name_and_alias(item.uri)
            if (item.served_model, name) != (key.served_model, key.ranker):
                continue
            if str(rankers.of(key.served_model).ranker.version) == key.version:
                state, outcomes = str(standing.state), standing.outcomes
                found.append(Decayed(key.served_model, name, alias, key.version, state, outcomes))
    return found
