"""Options that several ``shortfirst drift`` commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from drift.notify.config import Webhook
    from drift.outcomes import OutcomeStore

Outcomes = Annotated[
    Path | None,
    typer.Option(help="SQLite file of realised lengths. Default: in the home folder."),
]
Events = Annotated[
    Path | None, typer.Option(help="File of drift events. Default: in the home folder.")
]
Last = Annotated[int, typer.Option(min=1, help="How many of the newest outcomes to weigh again.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
WebhookUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--webhook",
        metavar="[KIND=]URL",
        help="Tell this receiver of every change of the drift state. KIND is json, slack or "
        "alertmanager. KIND=env:NAME takes the address from that environment variable, which "
        "keeps a secret out of the process list. May be given several times.",
    ),
]
WebhookFile = Annotated[
    Path | None,
    typer.Option(
        "--webhooks",
        help="TOML file, an array of tables named webhook: url, kind, name, level (warn, degraded "
        "or fcfs), link, token_env, secret_env, timeout_s, queue, resend_s, retry. "
        "Default: webhooks.toml in the home folder, if it is there.",
    ),
]


def open_store(path: Path | None) -> OutcomeStore:
    """Raises ``ValueError`` when there is none."""
    from drift.outcomes import OutcomeStore
    from serving.paths import Home

    return OutcomeStore(path or Home.resolve().outcomes, create=False)


def chosen_webhooks(urls: list[str] | None, file: Path | None) -> tuple[Webhook, ...]:
    """Those of the flags and of the file. Raises ``ValueError``."""
    import tomllib

    from drift.notify.config import webhooks
    from serving.paths import Home

    found = file or Home.resolve().webhooks
    table = None
    if file is not None or found.exists():
        try:
            table = tomllib.loads(found.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{found} is no TOML: {error}") from None
    return webhooks(urls or [], table)


def utc(at: float) -> str:
    """Unix seconds as people read them."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
