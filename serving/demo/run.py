"""The demo from start to end."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from drift.report import write
from engine.bundled import prepare_bundled
from ranker.registry import Registry
from ranker.types import Ranker
from serving.burst import session
from serving.burst import table as burst_table
from serving.burst.session import Comparison
from serving.cli import console, tables
from serving.demo import rankers, report
from serving.demo.config import DemoConfig
from serving.demo.drift import Traffic, Watched, watch
from serving.demo.outcomes import Feed
from serving.demo.services import start_rank
from serving.demo.stage import Narrator
from serving.mlflow_page import mlflow_page
from serving.paths import Home
from serving.processes import Service, Services, services
from training import foreign
from training.bundled import corpus
from training.pipeline import Result
from training.sharegpt import SERVED_MODEL, ShareGpt
from training.traffic import DEFAULT, SLICES, shifted


@dataclass(frozen=True)
class DemoResult:
    """``won``: the learned policy's mean per-token latency was lower than that of fcfs."""

    rankers: dict[str, Result]
    comparison: Comparison
    traffic: tuple[Traffic, Traffic]
    watched: Watched
    report: Path

    @property
    def won(self) -> bool:
        return burst_table.headline(self.comparison).value > 1.0

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        usual, different = self.traffic
        alert = self.watched.alert
        return {
            "rankers": {
                name: {"version": r.version, "tau_b": r.tables["test"][0].tau}
                for name, r in self.rankers.items()
            },
            "burst": burst_table.as_dict(self.comparison),
            "drift": {
                "usual": {"requests": len(usual.examples), "tau_b": usual.tau.value},
                "different": {"requests": len(different.examples), "tau_b": different.tau.value},
                "state_before": self.watched.healthy_state,
                "state_after": self.watched.replayed.snapshot.state.name.lower(),
                "alert_after_requests": self.watched.delay,
                "alert": None if alert is None else alert.as_dict(),
                "false_alarms": self.watched.false_alarms,
            },
            "report": str(self.report),
        }


def run(config: DemoConfig, home: Home, say: Narrator, now: Callable[[], datetime]) -> DemoResult:
    """All steps; see the README. Children are gone when it returns or raises."""
    with say.step(2, "The bundled model: SmolLM2-135M-Instruct"):
        with console.progress("Preparing the model", 1) as bar:
            folder = prepare_bundled(home.cache)
            bar.update(1)
        say.say(f"safetensors in {folder}")
    with say.step(3, "Rankers: real chat prompts, and how long the answers were"):
        with tables.stages() as progress:
            sharegpt = corpus(home.cache, folder, progress, later=False)
        trained, flat = _train(sharegpt, home, say, now())
    with (
        tempfile.TemporaryDirectory(prefix="shortfirst-demo-") as scratch,
        services(Path(scratch)) as children,
    ):
        with say.step(4, "The same burst under fcfs and under the learned policy"):
            rank = start_rank(children, Path(scratch))
            comparison = _compare(config, sharegpt, children, rank, say)
        with say.step(5, "The drift monitor: usual traffic, then truly different traffic"):
            ranker = Registry(home.mlflow_uri, home.artifacts).load(rankers.champion(SERVED_MODEL))
            traffic, watched = _drift(config, sharegpt, ranker, rank, Path(scratch), say, now())
    with say.step(6, "The report"):
        page = home.reports / f"demo-{now():%Y%m%d-%H%M%S}.html"
        write(report.build(config, trained, flat, comparison, traffic, watched, now()), page)
        say.address(str(page))
        say.say("MLflow, with every run, dataset and registered ranker:")
        say.address(mlflow_page(home.mlflow_uri))
    return DemoResult(trained, comparison, traffic, watched, page)


def _train(
    sharegpt: ShareGpt, home: Home, say: Narrator, now: datetime
) -> tuple[dict[str, Result], str]:
    registry = Registry(home.mlflow_uri, home.artifacts)
    trained = rankers.train(sharegpt, registry, now)
    result = trained[SERVED_MODEL]
    columns, rows = rankers.table(result.tables["test"])
    if not say.quiet:
        title = (
            f"{result.name} version {result.version}, {result.tables['test'][0].rows} test prompts"
        )
        console.print_table(columns, rows, title=title)
    for made in trained.values():
        if rankers.promote(registry, made, now):
            say.say(f"models:/{made.name}@champion is version {made.version}")
        else:
            say.say(f"{made.name}: version {made.version} orders worse than the champion; kept")
    flat = rankers.flat_line(trained, sharegpt)
    say.say(flat)
    return trained, flat


def _compare(
    config: DemoConfig, sharegpt: ShareGpt, children: Services, rank: Service, say: Narrator
) -> Comparison:
    chosen = config.session
    items = session.bursts(sharegpt.data().split("test"), chosen)
    with console.progress("Starting the engines", 1) as bar:
        engines = session.start_engines(children, rank, config.ranked_as, chosen)
        bar.update(1)
    say.say(
        f"rank service {rank.address('grpc')}; "
        + "; ".join(f"{name} engine {e.address('grpc')}" for name, e in engines.items())
    )
    say.say(
        f"{chosen.burst.requests} held-out prompts within {chosen.burst.spread_s:g} s, "
        f"{chosen.max_num_seqs} running at once, "
        f"{'both engines side by side' if chosen.together else 'taking turns'}"
    )
    bar_of = _tokens_bar(items, config)
    with bar_of as tokens:
        found = session.run(engines, rank, config.ranked_as, items, chosen, tokens.advance)
    if not say.quiet:
        console.print_table(*burst_table.rows(found))
    for line in burst_table.facts(found):
        say.say(line)
    say.say(burst_table.verdict(found), "bold")
    for engine in engines.values():
        engine.stop()
    return found


def _tokens_bar(items: list[list[Any]], config: DemoConfig) -> AbstractContextManager[console.Bar]:
    own = config.ranked_as != SERVED_MODEL
    total = None if own else 2 * sum(item.output_tokens for burst in items for item in burst)
    return console.progress("Generating", total, "tokens")


def _drift(
    config: DemoConfig,
    sharegpt: ShareGpt,
    ranker: Ranker,
    rank: Service,
    scratch: Path,
    say: Narrator,
    now: datetime,
) -> tuple[tuple[Traffic, Traffic], Watched]:
    usual = Traffic.judged("held-out opening questions", sharegpt.data().split("test"), ranker)
    if config.foreign is not None:
        what = f"{config.foreign_source} (another service's traffic)"
        rows = foreign.load(config.foreign, config.foreign_source)
    else:
        what, rows = SLICES[DEFAULT].what, shifted(sharegpt)
    different = Traffic.judged(what, rows, ranker)
    for traffic in (usual, different):
        tau = traffic.tau
        say.say(
            f"{traffic.what}: {len(traffic.examples):,} requests, tau-b {tau.value:.2f} "
            f"({tau.low:.2f} to {tau.high:.2f})"
        )
    total = len(usual.examples) + len(different.examples)
    feed = Feed(rank.address("grpc"), SERVED_MODEL, start=now.timestamp() - total)
    with console.progress("Reporting outcomes", total, "requests") as bar:
        watched = watch(
            feed,
            usual,
            different,
            outcomes=scratch / "outcomes.db",
            events=scratch / "events.jsonl",
            seed=config.seed,
            progress=lambda stage, done, _: bar.update(
                done if stage == "usual" else len(usual.examples) + done
            ),
        )
    say.say(
        f"after the usual traffic: {watched.healthy_state}, {watched.false_alarms} false alarms"
    )
    for event in watched.events:
        if event.kind == "state" and event.outcome > watched.switched:
            mark = "ALERT " if event.alert else ""
            say.say(f"{mark}{event.message}")
    if watched.delay is None:
        say.say("no alert", "bold")
    else:
        say.say(f"alert {watched.delay} requests after the traffic changed", "bold")
    return (usual, different), watched
