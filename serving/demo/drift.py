"""Step 5: the monitor on traffic like the training data, then on truly different traffic."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from drift.config import MonitorConfig
from drift.events import Event, read_events
from drift.outcomes import OutcomeStore
from drift.replay import Replayed, replay
from drift.tau import Tau, kendall_tau
from serving.demo.outcomes import Feed

if TYPE_CHECKING:
    from ranker.types import Ranker
    from training.sources import Example

#: Looks at the event log, so many seconds apart, until it says what it has to.
_LOOKS, _APART_S = 100, 0.2


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

    ``healthy`` is told the state after the usual traffic. The timeline has a second between two
    requests, in which the service learns what it measures by; here hundreds come in that second,
    so the usual traffic waits for it. Else the alert would tell how fast this machine learns.
    """
    switched = len(usual.examples)
    due = [number for number in MonitorConfig().lessons if number <= switched]
    for name, traffic, first in (("usual", usual, 0), ("different", different, switched)):
        total = len(traffic.examples)

        def sent(done: int, name: str = name, total: int = total) -> None:
            progress(name, done, total)
            if name == "usual":
                reached = [number for number in due if number <= done]
                del due[: len(reached)]  # each is waited for once, learned or not
                for number in reached:
                    _wait_for(events, partial(_learned, number))

        feed.send(traffic.examples, name=name, first=first, seed=seed, progress=sent)
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
        known = tuple(read_events(events))
        found = _of(served_model, store, known)
        state = str(found.snapshot.state)
        seen = _wait_for(events, lambda seen: _state(seen) == state)
        return (found if seen == known else _of(served_model, store, seen)), seen
    finally:
        store.close()


def _wait_for(events: Path, said: Callable[[Sequence[Event]], bool]) -> tuple[Event, ...]:
    """What is in the log once it has ``said`` something, or when that takes too long."""
    for _ in range(_LOOKS):
        seen = tuple(read_events(events))
        if said(seen):
            break
        time.sleep(_APART_S)
    return seen


def _learned(number: int, events: Sequence[Event]) -> bool:
    return any(event.kind == "reference" and event.outcome >= number for event in events)


def _of(served_model: str, store: OutcomeStore, seen: tuple[Event, ...]) -> Replayed:
    (found,) = (r for r in replay(store, seen) if r.snapshot.key.served_model == served_model)
    return found


def _state(events: Sequence[Event]) -> str:
    return next((e.state for e in reversed(events) if e.kind == "state"), "ok")
