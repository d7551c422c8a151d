"""Where a person sees the runs and rankers that MLflow keeps."""

from __future__ import annotations

import shlex

from ranker.registry import is_server, shown


def mlflow_page(tracking_uri: str) -> str:
    """The address of a tracking server, without the name and password that may stand in it, or
    the command that starts a page of a file."""
    if is_server(tracking_uri):
        return shown(tracking_uri)
    return f".venv/bin/mlflow ui --backend-store-uri {shlex.quote(tracking_uri)}"
