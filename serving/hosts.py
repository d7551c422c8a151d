"""Only by its own name: a web page elsewhere must not read this server through a name of its own.

A browser lets a page read what comes from the page's own host. Whoever owns that name can point it
at an address in here (DNS rebinding) and read on; the request then still carries the foreign name.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

#: Stands for every name.
ANY = "*"

_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?", re.ASCII)


class Hosts:
    """The host names that requests may ask for: IP addresses, ``localhost``, ``bound`` and
    ``allowed`` ones. Raises ``ValueError`` for what is no host name; :data:`ANY` allows all."""

    def __init__(self, bound: str, allowed: Iterable[str] = ()) -> None:
        self._any = False
        self._names = {"localhost", _plain(bound)}
        for name in allowed:
            if name == ANY:
                self._any = True
            elif not _NAME.fullmatch(_plain(name)):
                raise ValueError(
                    f"--allow-host takes a host name without a port, or {ANY}; got {name!r}"
                )
            self._names.add(_plain(name))

    def has(self, header: str) -> bool:
        """Whether ``header``, the value of ``Host``, is one of them, with whatever port."""
        name = _host(header)
        return self._any or name in self._names or name.endswith(".localhost") or _is_address(name)


class HostCheck:
    """Middleware: 403 for a request for a foreign host name. One without any (HTTP/1.0, which no
    browser speaks) passes."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for name, value in scope["headers"]:
                if name == b"host" and not self._hosts.has(value.decode("latin-1")):
                    await _refusal(value.decode("latin-1"))(scope, receive, send)
                    return
        await self._app(scope, receive, send)


def _refusal(header: str) -> PlainTextResponse:
    name = _host(header)
    if not _NAME.fullmatch(name):  # what is no name is not sent back
        return PlainTextResponse("the Host header of this request is no host name\n", 403)
    return PlainTextResponse(
        f"this server does not answer to the host name {name}: ask by IP address or localhost, or "
        f"start it with --allow-host {name}\n",
        403,
    )


def _host(header: str) -> str:
    """Without the port; the brackets of an IPv6 address go too."""
    header = header.strip()
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return _plain(header.partition(":")[0])


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
