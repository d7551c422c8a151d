"""The dashboard without a rank service: over stored outcomes, or over a demonstration."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from prometheus_client import CollectorRegistry

from drift.board import Board, board
from drift.delivery import Delivery
from drift.history import History
from drift.monitor import Monitor
from drift.outcomes import OutcomeStore
from drift.recovery import recover
from drift.sink import MonitoredStore
from drift.tell import Teller
from drift.valuer import ValueConfig, Valuer
from serving.dashboard.demo import DemoConfig, demo_traffic
from serving.dashboard.document import Reading
from serving.dashboard.routes import PATH, Dashboard
from serving.drain import StopSignal
from serving.hosts import HostCheck, Hosts
from serving.http_server import HttpServer
from serving.rank_http import rank_app

#: Outcomes of a demonstration's past that are reported at once.
_BATCH = 25


async def serve_dashboard(
    read: Callable[[], Mapping[str, Any]],
    host: str,
    port: int,
    stop: StopSignal,
    ready: Callable[[str], None],
    allow_hosts: Sequence[str] = (),
) -> None:
    """Until ``stop``; ``ready`` is told the address. ``allow_hosts``: as ``serving.hosts`` has
    them. Raises ``OSError`` when the port is taken."""
    dashboard = Dashboard(read, time.monotonic)
    app = HostCheck(rank_app(CollectorRegistry(), dashboard), Hosts(host, allow_hosts))
    server = HttpServer(app, host, port)
    try:
        ready(f"http://{await server.start()}{PATH}")
        await stop.asked.wait()
    finally:
        dashboard.feed.close()
        await server.stop()


def stored_board(store: OutcomeStore, last: int) -> Callable[[], Board]:
    """The board of the ``last`` stored outcomes, weighed and replayed again: it does not move."""
    monitor, valuer = recover(store, last=last), Valuer(ValueConfig(every=1, rest=0.0))
    monitor.flush()
    _replay_all(monitor, valuer)
    found = board(monitor.view(), valuer.values(), time.time())
    return lambda: found


def _replay_all(monitor: Monitor, valuer: Valuer) -> None:
    progress = monitor.progress()
    for now in range(len(progress)):
        turn = valuer.due(progress, float(now))
        if turn is None:
            return
        found = valuer.replay(turn, monitor.recent(turn.key))
        if found is not None:
            valuer.record(turn, found)


class Demo:
    """Reports :func:`demo_traffic` to a real sink in a folder that goes with it: its past as fast
    as that can be weighed, then as time passes. ``read`` is for :func:`serve_dashboard`."""

    def __init__(self, config: DemoConfig) -> None:
        self._config = config
        self._folder = TemporaryDirectory(prefix="shortfirst-demo-")
        folder = Path(self._folder.name)
        self._history = History(folder / "history.db")
        self.sink = MonitoredStore.open(
            folder / "outcomes.db",
            folder / "events.jsonl",
            time.time,
            on_event=Teller(self._history, None, time.time),
            # Its past goes by in a minute or two, and seconds saved of its first are not of late.
            value=ValueConfig(every=100, rest=0.5, saved_every=5.0),
        )
        self.read = Reading(self.sink.board, self._history.path)
        self._stop = threading.Event()
        self._feeding = threading.Thread(target=self._feed, name="demo", daemon=True)

    def __enter__(self) -> Demo:
        self._feeding.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._feeding.join()
        self.sink.close()
        self._history.close()
        self._folder.cleanup()

    def _feed(self) -> None:
        config = self._config
        begin = time.time() - (config.good + 2 * config.bad) * config.gap
        waiting = []
        for outcome in demo_traffic(config, begin):
            waiting.append(outcome)
            early = outcome.finished - time.time()
            if early <= 0.0 and len(waiting) < _BATCH:
                continue
            if self._stop.wait(max(early, 0.05)):
                return
            self.sink.receive(Delivery(waiting, reporter="demo"), time.time())
            waiting = []
