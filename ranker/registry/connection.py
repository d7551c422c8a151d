"""How MLflow is reached: without telemetry or noise, with errors of one line."""

from __future__ import annotations

import os
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

# Before the import: mlflow reads them then. No reports to its makers, no bars on standard error.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
# Its 7 retries take four minutes until a server that is gone is called gone; 4 take half of one.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "4")

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from ranker.quiet import quiet

_PATIENCE_S = 5.0
_PORTS = {"http": 80, "https": 443}


class RegistryError(ValueError):
    """Something that is asked for is not in the registry, or the registry cannot be reached; the
    message says what there is."""


def is_server(tracking_uri: str) -> bool:
    """Whether the address is that of a tracking server, which places artifacts itself."""
    return urlsplit(tracking_uri).scheme in _PORTS or tracking_uri.startswith("databricks")


def connect(tracking_uri: str) -> MlflowClient:
    """A client of ``tracking_uri``; raises :class:`RegistryError` for an address that is none."""
    if tracking_uri.startswith("sqlite:///"):
        Path(tracking_uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    _knock(tracking_uri)
    with explained(f"tracking_uri {shown(tracking_uri)!r}"):
        return MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Errors of MLflow and of its database as one :class:`RegistryError` about ``what``."""
    with quiet():
        try:
            yield
        except MlflowException as error:
            raise RegistryError(f"{what}: {error.message}") from None
        except SQLAlchemyError as error:  # what the text goes on with is SQL
            why = getattr(error, "orig", None) or type(error).__name__
            raise RegistryError(f"{what} is unusable: {why}") from None


def shown(tracking_uri: str) -> str:
    """The address without the name and password that may stand in it."""
    scheme, slashes, rest = tracking_uri.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{place.rpartition('@')[2]}{slash}{path}"


def _knock(tracking_uri: str) -> None:
    """Say at once that nobody listens, before mlflow tries again and again."""
    parts = urlsplit(tracking_uri)
    if parts.scheme not in _PORTS:
        return
    proxied = parts.scheme in urllib.request.getproxies()
    if proxied and not urllib.request.proxy_bypass(parts.hostname or ""):
        return
    try:
        address = (parts.hostname or "", parts.port or _PORTS[parts.scheme])
        socket.create_connection(address, _PATIENCE_S).close()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise RegistryError(
            f"tracking_uri {shown(tracking_uri)!r}: no server answers there ({why}); start one "
            f"with mlflow server, or leave the address away for the file in the home folder"
        ) from None
