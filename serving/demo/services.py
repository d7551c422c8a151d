"""The rank service as a child process, with the champions of the bundled served models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from serving.demo import rankers
from serving.processes import Service, Services


def start_rank(
    children: Services, folder: Path, served_models: Sequence[str] = rankers.SERVED
) -> Service:
    """Start it on free ports, its outcomes and events in ``folder``; return when it answers."""
    return children.launch(
        "rank-service",
        [
            "serve",
            *rankers.to_serve(served_models),
            *("--port", "0", "--metrics-port", "0", "--reload-seconds", "0"),
            *("--outcomes", str(folder / "outcomes.db"), "--events", str(folder / "events.jsonl")),
        ],
    ).wait()
