"""Where the commands find runs and registered rankers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from serving.paths import TRACKING_VARIABLE

if TYPE_CHECKING:
    from ranker.registry import Registry

TrackingUri = Annotated[
    str,
    typer.Option(
        envvar=TRACKING_VARIABLE,
        help="MLflow tracking server, such as http://localhost:5000, or database. "
        "Default: SQLite in the home folder.",
        show_default=False,
    ),
]


def open_registry(tracking_uri: str = "") -> Registry:
    """The registry at ``tracking_uri``, or that of the home folder."""
    from ranker.registry import Registry
    from serving.paths import Home

    home = Home.resolve()
    return Registry(tracking_uri or home.mlflow_uri, home.artifacts)
