"""``shortfirst up``: everything needed to try it, running in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from serving.cli.act_flags import Act
from serving.cli.rank_flags import AllowHosts
from serving.cli.retain_prompts import RetainPrompts


def up(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    rank_port: Annotated[int, typer.Option(help="gRPC port of the rank service.")] = 50051,
    metrics_port: Annotated[int, typer.Option(help="Port of the rank service's /metrics.")] = 9464,
    grpc_port: Annotated[int, typer.Option(help="gRPC port of the engine.")] = 50052,
    http_port: Annotated[int, typer.Option(help="Port of the OpenAI-compatible API.")] = 8000,
    policy: Annotated[str, typer.Option(help="As of shortfirst engine.")] = "boost",
    act: Act = True,
    retain_prompts: RetainPrompts = 0.0,
    allow_host: AllowHosts = None,
) -> None:
    """Prepare the model and train rankers if there are none, then serve until Ctrl-C.

    The rank service and an engine with the bundled model run as children of this command; ports
    may be 0. Their logs are in the home folder under run/; a rank service that dies is started
    again. Realised lengths are reported to the
    drift monitor: see shortfirst drift status.
    """
    from datetime import UTC, datetime

    from ranker.registry import Registry
    from serving import logs
    from serving.cli import console, tables
    from serving.demo import rankers
    from serving.paths import Home
    from serving.processes import Service, ServiceFailed, services
    from training import smollm2
    from training.bundled import corpus
    from training.pipeline import ranker_name

    logs.configure("error")
    home = Home.resolve()
    registry = Registry(home.mlflow_uri, home.artifacts)
    missing = [m for m in rankers.SERVED if not registry.resolve(ranker_name(m), "champion")]
    if missing:
        with tables.stages() as progress:
            sharegpt = corpus(home.cache, None, progress, later=False)
        now = datetime.now(UTC)
        for result in rankers.train(sharegpt, registry, now, missing).values():
            rankers.promote(registry, result, now)
            console.note(f"models:/{result.name}@champion is version {result.version}")

    def rank_command(port: str) -> list[str]:
        return ["serve", *rankers.to_serve(), "--host", host, "--port", port,
                "--metrics-port", str(metrics_port), "--act" if act else "--no-act",
                "--retain-prompts", str(retain_prompts),
                *(part for name in allow_host or () for part in ("--allow-host", name)),
                "--drain-seconds", "8"]  # fmt: skip

    try:
        with services(home.root / "run") as children:
            rank = children.launch("rank-service", rank_command(str(rank_port))).wait()

            def replaced(ended: Service) -> bool:
                """Streams go on without forecasts until it is back, at the same address."""
                if ended.name != "rank-service":
                    return False
                console.note("The rank service ended by itself; starting it again")
                port = rank.address("grpc").rpartition(":")[2]
                children.launch("rank-service", rank_command(port)).wait()
                return True

            console.note("Starting the engine ...")
            engine = children.launch(
                "engine",
                ["engine", "--policy", policy, "--host", host, "--grpc-port", str(grpc_port),
                 "--http-port", str(http_port), "--rank-target", rank.address("grpc"),
                 "--rank-model", smollm2.SERVED_MODEL, "--rank-deadline-ms", "200",
                 "--drain-seconds", "8"],
            ).wait()  # fmt: skip
            typer.echo(_welcome(rank.addresses, engine.addresses))
            children.wait(replaced)
    except ServiceFailed as error:
        raise console.UserError(str(error), status=1) from None
    except KeyboardInterrupt:
        console.note("Stopped.")


def _welcome(rank: dict[str, str], engine: dict[str, str]) -> str:
    return f"""
Rank service  gRPC {rank["grpc"]}   metrics {rank["metrics"]}
              drift dashboard {rank["dashboard"]}
Engine        gRPC {engine["grpc"]}   OpenAI {engine["http"]}/v1   metrics {engine["metrics"]}

Ask for a forecast (higher score = longer answer):
  grpcurl -plaintext -d '{{"items":[{{"id":"a","prompt":"Write an essay about Peru."}}]}}' \\
    {rank["grpc"]} shortfirst.rank.v1.RankService/Rank
Generate:
  curl -N {engine["http"]}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{"messages":[{{"role":"user","content":"Name three colours."}}],
         "max_tokens":40,"stream":true}}'

Ctrl-C stops both."""
