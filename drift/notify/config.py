"""Where notices go: flags, or tables of a TOML file. Secrets come from the environment."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any
from urllib.parse import urlsplit

from drift.notify.address import check_url, variable
from drift.notify.formats import FORMATS
from drift.notify.retry import RetryConfig
from drift.states import State

_ENV = "env:"


@dataclass(frozen=True, slots=True)
class Webhook:
    """One receiver. Its address may be a secret and is never shown.

    ``url``: http or https, or ``env:NAME``: the environment variable that holds it. ``level``: the
    state from which the receiver is told. ``link``: an address for people, of the dashboard.
    ``token_env``: variable of a bearer token. ``secret_env``: variable of a key with which JSON is
    signed (``X-Shortfirst-Signature: sha256=<HMAC of the body>``). ``queue``: notices that wait at
    most. ``resend_s``: how often an Alertmanager is told again of an alert that still fires.
    """

    url: str = field(repr=False)
    kind: str = "json"
    name: str = ""
    level: str = "warn"
    link: str = ""
    token_env: str = ""
    secret_env: str = ""
    timeout_s: float = 10.0
    queue: int = 256
    resend_s: float = 60.0
    retry: RetryConfig = field(default_factory=RetryConfig)

    def __post_init__(self) -> None:
        if self.kind not in FORMATS:
            raise ValueError(f"webhook.kind must be one of {', '.join(FORMATS)}, got {self.kind!r}")
        levels = [str(state) for state in State if state is not State.OK]
        if self.level not in levels:
            raise ValueError(
                f"webhook.level must be one of {', '.join(levels)}, got {self.level!r}"
            )
        if not self.url.startswith(_ENV):
            check_url(self.url, "webhook.url")
        elif not _is_name(self.url[len(_ENV) :]):
            raise ValueError("webhook.url: env: must be followed by the name of a variable")
        if self.link:
            check_url(self.link, "webhook.link")
        if self.secret_env and self.kind != "json":
            raise ValueError('webhook.secret_env signs JSON; only kind = "json" takes it')
        for name in ("timeout_s", "resend_s"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f"webhook.{name} must be above 0, got {getattr(self, name)}")
        if self.queue < 1:
            raise ValueError(f"webhook.queue must be >= 1, got {self.queue}")

    @classmethod
    def of_flag(cls, text: str) -> Webhook:
        """``URL`` or ``KIND=URL``. Raises ``ValueError``."""
        kind, equals, url = text.partition("=")
        if equals and re.fullmatch(r"[a-z_-]+", kind):
            return cls(url=url, kind=kind)
        return cls(url=text)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Webhook:
        """From a table as TOML gives it. Raises ``ValueError`` on keys it doesn't know."""
        arguments = dict(_known(cls, values, "webhook"))
        if not isinstance(arguments.get("url"), str):
            raise ValueError("webhook.url must be given, as text")
        for name, value in arguments.items():
            wanted = _TYPES[name]
            if isinstance(value, bool) or not isinstance(value, wanted):
                raise ValueError(f"webhook.{name} has the wrong type: {type(value).__name__}")
        if "retry" in arguments:
            numbers = _known(RetryConfig, arguments["retry"], "retry")
            if any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers.values()):
                raise ValueError("retry takes numbers only")
            arguments["retry"] = RetryConfig(**numbers)
        return cls(**arguments)

    def address(self, environ: Mapping[str, str]) -> str:
        """Where to post. Raises ``ValueError`` when the environment lacks it."""
        url = self.url
        if url.startswith(_ENV):
            url = variable(environ, url[len(_ENV) :], "webhook.url")
            check_url(url, "webhook.url")
        if self.kind == "alertmanager" and not urlsplit(url).path.endswith("/alerts"):
            url = url.rstrip("/") + "/api/v2/alerts"
        return url

    def token(self, environ: Mapping[str, str]) -> str:
        return variable(environ, self.token_env, "webhook.token_env") if self.token_env else ""

    def secret(self, environ: Mapping[str, str]) -> str:
        return variable(environ, self.secret_env, "webhook.secret_env") if self.secret_env else ""


_TYPES: Mapping[str, Any] = {
    "url": str, "kind": str, "name": str, "level": str, "link": str, "token_env": str,
    "secret_env": str, "timeout_s": (int, float), "queue": int, "resend_s": (int, float),
    "retry": Mapping,
}  # fmt: skip


def webhooks(flags: Sequence[str], table: Mapping[str, Any] | None = None) -> tuple[Webhook, ...]:
    """Those of flags, then those of a TOML document with tables ``[[webhook]]``; each gets a name.

    Raises ``ValueError``.
    """
    found = [Webhook.of_flag(text) for text in flags]
    if table is not None:
        if unknown := sorted(set(table) - {"webhook"}):
            raise ValueError(f"{unknown[0]} is not a setting; known are tables [[webhook]]")
        tables = table.get("webhook", [])
        if not isinstance(tables, list):
            raise ValueError("webhook must be an array of tables: [[webhook]]")
        found += [Webhook.from_mapping(one) for one in tables]
    named: dict[str, Webhook] = {}
    for one in found:
        name = one.name or one.kind
        if one.name and one.name in named:
            raise ValueError(f"webhook.name: {name!r} is given twice")
        number = 2
        while name in named:
            name, number = f"{one.kind}-{number}", number + 1
        named[name] = replace(one, name=name)
    return tuple(named.values())


def _known(kind: Any, values: Any, where: str) -> dict[str, Any]:
    known = [f.name for f in fields(kind)]
    if not isinstance(values, Mapping):
        raise ValueError(f"{where} must be a table, got {type(values).__name__}")
    for key in values:
        if key not in known:
            raise ValueError(f"{where}.{key} is not a setting; known are {', '.join(known)}")
    return dict(values)


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text) is not None
