"""``shortfirst serve``: the rank service with its drift monitor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from serving.cli import retrain_options
from serving.cli.act_flags import Act, ActFile, chosen_actions
from serving.cli.drift_options import WebhookFile, WebhookUrls, chosen_webhooks
from serving.cli.rank_flags import AllowHosts, KeepDays, KeepRows
from serving.cli.registry import TrackingUri, open_registry
from serving.cli.retain_prompts import RetainPrompts, chosen


def serve(
    ranker: Annotated[
        list[str] | None,
        typer.Option(
            "--ranker",
            help="A registered ranker (models:/NAME@ALIAS or models:/NAME/VERSION) or the folder "
            "of a saved one; may be given once per served model. One whose served model is "
            "called pooled answers for models without their own. "
            "Default: models:/length-ranker@champion.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="gRPC port; 0 picks a free one.")] = 50051,
    metrics_port: Annotated[
        int, typer.Option(help="Port of /metrics and of the dashboard; 0 picks a free one.")
    ] = 9464,
    allow_host: AllowHosts = None,
    tracking_uri: TrackingUri = "",
    outcomes: Annotated[Path | None, typer.Option(help="SQLite file of realised lengths.")] = None,
    events: Annotated[Path | None, typer.Option(help="File of drift events, JSON lines.")] = None,
    history: Annotated[
        Path | None,
        typer.Option(help="SQLite file of who did what, when; shortfirst drift history reads it."),
    ] = None,
    act: Act = True,
    act_config: ActFile = None,
    retain_prompts: RetainPrompts = 0.0,
    retrain: retrain_options.Retrain = False,
    retrain_gather: retrain_options.Gather = 1000,
    retrain_shadow: retrain_options.Shadow = 300,
    retrain_cooldown: retrain_options.Cooldown = 6.0,
    retrain_config: retrain_options.ConfigName = "",
    retrain_half_life: retrain_options.HalfLife = 0.0,
    keep_outcomes_days: KeepDays = 90.0,
    keep_outcomes: KeepRows = 5_000_000,
    webhook: WebhookUrls = None,
    webhooks: WebhookFile = None,
    reload_seconds: Annotated[
        float, typer.Option(help="How often to look whether an alias moved; 0: never.")
    ] = 5.0,
    drain_seconds: Annotated[
        float, typer.Option(help="How long a stop waits for calls under way.")
    ] = 30.0,
    ready_file: Annotated[
        Path | None,
        typer.Option(
            help="Written once the service answers: {pid, grpc, metrics, dashboard} as JSON."
        ),
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Answer length forecasts over gRPC, take realised lengths back, watch for drift."""
    import asyncio
    import os
    import random
    import time

    from prometheus_client import CollectorRegistry

    from drift.acting.metrics import ActingCollector
    from drift.keeping import KeepConfig
    from drift.loop_metrics import LoopCollector
    from drift.metrics import DriftCollector
    from drift.notify.metrics import NotifyCollector
    from serving import logs
    from serving.cli.console import note
    from serving.dashboard.document import Reading
    from serving.guide import Guide
    from serving.loop import LoopConfig, loop
    from serving.paths import Home, prompts_beside
    from serving.rank_server import RankServerConfig, run
    from serving.rankers import Rankers, Watched, follows_alias
    from serving.retaining import retaining
    from serving.telling import TellingConfig, described, telling

    logs.configure(log_level)
    config = RankServerConfig(
        host=host,
        port=port,
        metrics_port=metrics_port,
        reload_s=reload_seconds,
        drain_s=drain_seconds,
        allow_hosts=tuple(allow_host or ()),
    )
    actions = chosen_actions(act, act_config)
    keep = KeepConfig(days=keep_outcomes_days, rows=keep_outcomes)
    retraining = retrain_options.chosen_retraining(
        retrain,
        retain_prompts > 0.0,
        reload_seconds > 0.0,
        gather=retrain_gather,
        shadow=retrain_shadow,
        cooldown_h=retrain_cooldown,
        config=retrain_config,
        half_life=retrain_half_life,
    )
    home = Home.resolve()
    hooks = chosen_webhooks(webhook, webhooks)  # a mistake here shows before rankers load
    if hooks:
        note(f"Drift is told to {described(hooks)}")
    source = open_registry(tracking_uri)
    loaded, watched = {}, []
    for uri in ranker or ["models:/length-ranker@champion"]:
        one = source.load(uri)
        if one.served_model in loaded:
            raise ValueError(f"--ranker: {uri} serves {one.served_model!r}, as another one does")
        loaded[one.served_model] = one
        if follows_alias(uri):
            watched.append(Watched(uri, one.served_model, str(one.version)))
        note(f"{uri}: {one.name} version {one.version} for {one.served_model}")
    told = TellingConfig(
        outcomes or home.outcomes, events or home.events, history or home.history, hooks, keep=keep
    )
    prompts = prompts_beside(told.outcomes)
    retention = chosen(retain_prompts, prompts)
    registry = CollectorRegistry()
    rankers = Rankers(loaded)
    around = LoopConfig(told.outcomes, told.history, retraining, tracking_uri)
    with (
        telling(told, os.environ, time.time, random.Random()) as running,
        retaining(prompts, retention, registry, time.time) as retained,
        loop(around, source, watched, rankers, running, time.time) as closed,
    ):
        registry.register(DriftCollector(running.sink))
        registry.register(NotifyCollector(running.notifier))
        registry.register(LoopCollector(closed))
        guide = None
        if actions is not None:
            guide = Guide(running.sink, actions, running.announce, time.time)
            registry.register(ActingCollector(guide.acting))
        asyncio.run(
            run(
                config,
                rankers,
                running.sink,
                registry,
                watched=watched,
                source=source,
                read=Reading(
                    running.sink.board,
                    told.history,
                    closed.shadows,
                    closed.retraining,
                    guide.acting.trusts if guide is not None else dict,
                ),
                ranked=retained,
                guide=guide,
                shadower=closed.shadower,
                swapped=closed.swapped,
                looked=closed.challengers.look,
                ready_file=ready_file,
            )
        )
