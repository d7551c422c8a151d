"""The loop from start to end."""

from __future__ import annotations

import getpass
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drift.config import MonitorConfig
from drift.entry import Entry
from ranker.registry import Registry
from ranker.types import Forecast, Outcome
from serving.cli.training_data import Wanted
from serving.drift_loop.config import RANKER, SERVED_MODEL, LoopDemoConfig
from serving.drift_loop.feed import Feed, feeding
from serving.drift_loop.service import Running, serve
from serving.drift_loop.shifted import Shifted
from serving.drift_loop.traffic import LoopTraffic, other_traffic
from serving.drift_loop.worth import Value, values
from serving.paths import Home
from serving.processes import services
from training import configs, pipeline
from training.bundled import corpus
from training.fit import train
from training.forecasts import forecasts_of
from training.sources import Example, Progress

_CHUNK = 25
#: Seconds of the past in which the first request came: none may lie in the future.
_PAST_S = 6 * 3600.0
#: What is trained quickly.
_QUICK = "[lexical.trees]\nrounds = {rounds}\n"


@dataclass(frozen=True, slots=True)
class LoopResult:
    """``alert``: requests of the new traffic until the state was ``degraded``; ``seen``: until the
    promotion. ``usual``: the champion's worth on usual traffic; ``fresh``: of each ranker on the
    new one's held-out requests. ``seconds``: from the alert until the new version answered, by the
    clock. ``history``: what the service told."""

    false_alarms: int
    alert: int
    seen: int
    promoted: str
    rolled_back: str
    reference_tau: float | None
    seconds: float
    usual: Value
    fresh: dict[str, Value]
    history: tuple[Entry, ...]

    @property
    def recovered(self) -> float:
        """Efficiency of the promoted ranker over that of one trained from scratch."""
        return self.fresh["retrained"].efficiency / self.fresh["from scratch"].efficiency

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            **asdict(self),
            "recovered": self.recovered,
            "history": [entry.as_dict() for entry in self.history],
        }


def run(
    config: LoopDemoConfig,
    cache: Path,
    folder: Path,
    progress: Progress,
    say: Callable[[str], None],
) -> LoopResult:
    """All of it in ``folder``, which should be new; ``cache`` keeps token counts. Children are gone
    when it returns or raises. Raises :class:`serving.processes.ServiceFailed`."""
    rng = random.Random(config.seed)
    other = other_traffic(config.traffic, config.shared, rng) if config.traffic else ()
    traffic = LoopTraffic.of(corpus(cache, progress=progress), config.usual, rng, other)
    home = Home(folder)
    folder.mkdir(parents=True, exist_ok=True)
    quick = None
    if config.rounds:
        quick = folder / "quick.toml"
        quick.write_text(_QUICK.format(rounds=config.rounds), encoding="utf-8")
    settings = configs.read(str(quick or "")).train
    registry = Registry(home.mlflow_uri, home.artifacts)
    pipeline.run(
        pipeline.Job(traffic.champion, SERVED_MODEL, RANKER), settings, registry, progress,
        by=getpass.getuser(), now=datetime.now(UTC),
        # Not to be found again: retraining is to learn from outcomes alone.
        tags=Wanted(traffic.champion.name).tags(),
    )  # fmt: skip
    champion = registry.load(f"models:/{RANKER}/1")
    with services(folder) as children:
        running = serve(children, home, config, quick)
        with feeding(running.target, SERVED_MODEL, time.time() - _PAST_S) as feed:
            usual = _send(feed, traffic.usual)
            # Else hundreds of new requests come before anything is measured.
            _wait_for_reference(running, usual, "1")
            calm = [e for e in running.history("state") if e.after in ("degraded", "fcfs")]
            say(f"{len(traffic.usual):,} requests of usual traffic: {len(calm)} alarms")
            shifted = Shifted(running, feed, traffic.shifted, config.gather, say)
            shifted.until_promoted()
            outcomes = _send(feed, traffic.fresh)
            _wait_for_reference(running, outcomes, shifted.version)
            running.command("rollback", RANKER)
            running.wait(lambda: feed.version() == "1", "the version before answers again")
            running.wait(lambda: bool(running.history("rollback")), "the rollback is told")
        history = tuple(running.history())
    say("training one from scratch, to compare with")
    scratch = train(
        traffic.scratch, settings, served_model=SERVED_MODEL, name="from-scratch", progress=progress
    ).ranker
    told = {
        "before": forecasts_of(champion, traffic.fresh),
        "retrained": _forecasts(outcomes),
        "from scratch": forecasts_of(scratch, traffic.fresh),
    }
    learned = [e for e in history if e.kind == "reference" and e.version == shifted.version]
    return LoopResult(
        false_alarms=len(calm),
        alert=shifted.alert,
        seen=shifted.sent,
        promoted=shifted.version,
        rolled_back=next(e.after for e in history if e.kind == "rollback"),
        reference_tau=learned[-1].details.get("tau") if learned else None,
        seconds=shifted.seconds,
        usual=values(usual, {"": _forecasts(usual)}, config.bursts, config.requests, rng)[""],
        fresh=values(outcomes, told, config.bursts, config.requests, rng),
        history=history,
    )


def _forecasts(outcomes: Sequence[Outcome]) -> list[Forecast]:
    """As the service gave them."""
    return [o.forecast for o in outcomes if o.forecast is not None]


def _wait_for_reference(running: Running, outcomes: Sequence[Outcome], version: str) -> None:
    """What ``version`` is measured by, where its ``outcomes`` are enough to learn that from."""
    if len(outcomes) >= MonitorConfig().reference_first:
        running.wait(
            lambda: any(e.version == version for e in running.history("reference")),
            f"a reference of version {version}",
        )


def _send(feed: Feed, examples: Sequence[Example]) -> list[Outcome]:
    found: list[Outcome] = []
    for start in range(0, len(examples), _CHUNK):
        found += feed.send(examples[start : start + _CHUNK])
    return found
