"""Step 5: the monitor on traffic like the training data, then on truly different traffic."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drift.events import Event, read_events
from drift.outcomes import OutcomeStore
from drift.replay import Replayed, replay
from drift.tau import Tau, kendall_tau
from serving.demo.outcomes import Feed

if TYPE_CHECKING:
    from ranker.types import Ranker
    from training.sources import Example

#: Looks at the event log, a second apart, until it says what the outcomes come to.
_LOOKS = 20


@dataclass(frozen=True, slots=True)
class Traffic:
    """Examples with the words that describe them, and the tau-b of a ranker's order on them."""

    what: str
    examples: Sequence[Example]
    tau: Tau

    @classmethod
    def judged(cls, what: str, examples: Sequence[Example], ranker: Ranker) -> Traffic:
        scores = [f.score for f in ranker.forecast([e.prompt for e in examples])]
        tokens = [e.output_tokens for e in examples]
        censored = [e.finish_reason.censored for e in examples]
        return cls(what, examples, kendall_tau(scores, tokens, censored))


@dataclass(frozen=True, slots=True)
class Watched:
    """``switched``: number of the first request of the different traffic. ``alert``: the first
    one after it, or ``None``; ``false_alarms``: alerts before it."""

    replayed: Replayed
    events: tuple[Event, ...]
    switched: int
    alert: Event | None
    false_alarms: int
    healthy_state: str

    @property
    def delay(self) -> int | None:
        """Requests of the different traffic that the monitor saw before it alerted."""
        return None if self.alert is None else self.alert.outcome - self.switched


def watch(
    feed: Feed,
    usual: Traffic,
    different: Traffic,
    *,
    outcomes: Path,
    events: Path,
    seed: int,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
    healthy: Callable[[str], None] = lambda state: None,
) -> Watched:
    """Feed both kinds of traffic to the rank service that writes ``outcomes`` and ``events``.

    ``healthy`` is told the state after the usual traffic.
    """
    switched = len(usual.examples)
    for name, traffic, first in (("usual", usual, 0), ("different", different, switched)):
        total = len(traffic.examples)
        feed.send(
            traffic.examples,
            name=name,
            first=first,
            seed=seed,
            progress=lambda done, n=name, t=total: progress(n, done, t),  # type: ignore[misc]
        )
        if name == "usual":
            state = _state(tuple(read_events(events)))
            healthy(state)
    replayed, seen = _replayed(feed.served_model, outcomes, events)
    alerts = [event for event in seen if event.alert]
    marks = ((switched, "traffic changed"),)
    section = replace(replayed.section, marks=marks)
    return Watched(
        replayed=replace(replayed, section=section),
        events=seen,
        switched=switched,
        alert=next((event for event in alerts if event.outcome > switched), None),
        false_alarms=sum(event.outcome <= switched for event in alerts),
        healthy_state=state,
    )


def _replayed(
    served_model: str, outcomes: Path, events: Path
) -> tuple[Replayed, tuple[Event, ...]]:
    """What the stored outcomes come to, and the events that the service told of them: those come
    after the acknowledgement, from a thread of its own, so they are waited for."""
    store = OutcomeStore(outcomes, create=False)
    try:
        seen = tuple(read_events(events))
        found = _of(served_model, store, seen)
        if _state(seen) != str(found.snapshot.state):
            for _ in range(_LOOKS):
                time.sleep(1.0)
                seen = tuple(read_events(events))
                if _state(seen) == str(found.snapshot.state):
                    break
            found = _of(served_model, store, seen)
    finally:
        store.close()
    return found, seen


def _of(served_model: str, store: OutcomeStore, seen: tuple[Event, ...]) -> Replayed:
    (found,) = (r for r in replay(store, seen) if r.snapshot.key.served_model == served_model)
    return found


def _state(events: Sequence[Event]) -> str:
    return next((e.state for e in reversed(events) if e.kind == "state"), "ok")
