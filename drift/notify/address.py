"""Addresses and secrets of receivers: checked without ever being shown."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit


def check_url(url: str, where: str) -> None:
    """Raises ``ValueError``, which doesn't show the address: it may be a secret."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"{where} must be an http or https address, or env:NAME")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{where} must not hold a password; use webhook.token_env")
    if not url.isascii() or any(c <= " " or c == "\x7f" for c in url):
        raise ValueError(f"{where} must be plain ASCII without spaces; percent-encode the rest")


def variable(environ: Mapping[str, str], name: str, where: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise ValueError(f"{where}: the environment variable {name} is not set")
    if not value.isascii() or not value.isprintable():
        raise ValueError(f"{where}: the environment variable {name} must be printable ASCII")
    return value
