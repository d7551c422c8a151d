"""What closes the loop around the rank service: who serves, who is tried, and retraining."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from drift.acting.standing import Standing
from drift.entry import Entry
from drift.history import read_history
from drift.retraining import ACTOR, RetrainConfig
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
from training.gate.registered import CHALLENGER


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
        entry = self.moves.swapped(swap)
        if self.retrainer is not None:
            self.retrainer.moved(entry)
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
    missed: list[Entry] = []
    for item, (name, alias) in zip(watched, names, strict=True):
        missed += moves.missed(name, alias, item.served_model, since)
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
                lambda: decayed(telling.sink.standings(), watched, rankers),
                shadower.found,
                telling.announce,
                clock,
                shadows_end(challengers, telling.announce, clock),
            )
            for entry in missed:
                retrainer.moved(entry)
            undo.callback(retrainer.close)
            retrainer.start()
        yield Loop(telling.sink, challengers, shadower, moves, retrainer)


def shadows_end(
    challengers: Challengers, announce: Callable[[Entry], None], clock: Callable[[], float]
) -> Callable[[str, str, str], None]:
    """For a challenger that came to nothing: it is scored no more, and that is told."""

    def given_up(served_model: str, name: str, version: str) -> None:
        if challengers.give_up(name, version):
            announce(
                Entry(
                    at=clock(),
                    kind="shadow",
                    actor=ACTOR,
                    served_model=served_model,
                    before="scored",
                    after="ended",
                    ranker=name,
                    version=version,
                    message=f"version {version} is not scored in the shadow any more; the next "
                    f"@{CHALLENGER} is",
                )
            )

    return given_up


def decayed(
    standings: Sequence[Standing], watched: Sequence[Watched], rankers: Rankers
) -> list[Decayed]:
    """Versions that serve, follow an alias, and whose order is ``degraded`` or worse as a whole: no
    training mends requests that go unscored.

    Of a pooled ranker none: it belongs to several served models, and the trouble of one is no
    reason to train for all of them.
    """
    found = []
    for standing in standings:
        key = standing.key
        if key.sliced or standing.of_order < State.DEGRADED:
            continue
        for item in watched:
            name, alias = name_and_alias(item.uri)
            if (item.served_model, name) != (key.served_model, key.ranker):
                continue
            if str(rankers.of(key.served_model).ranker.version) == key.version:
                state, outcomes = str(standing.of_order), standing.outcomes
                found.append(Decayed(key.served_model, name, alias, key.version, state, outcomes))
    return found
