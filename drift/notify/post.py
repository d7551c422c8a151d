"""One HTTP POST, over the standard library; proxies as the environment names them."""

from __future__ import annotations

import hashlib
import hmac
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

#: What a receiver says of a failure is read this far, in bytes.
_READ = 300


@dataclass(frozen=True, slots=True)
class Reply:
    """``status`` 0: no answer. ``text``: the start of what was answered, or what went wrong; never
    the address. ``retry_after``: that header."""

    status: int
    text: str = ""
    retry_after: str = ""

    @property
    def delivered(self) -> bool:
        return 200 <= self.status < 300

    def __str__(self) -> str:
        said = f": {self.text}" if self.text else ""
        return f"HTTP {self.status}{said}" if self.status else f"no answer{said}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would turn the POST into a GET, and could carry a token elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def post(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> Reply:
    """Post ``body``. Raises nothing: what goes wrong is in the reply."""
    request = urllib.request.Request(url, body, dict(headers), method="POST")
    try:
        with _OPENER.open(request, timeout=timeout_s) as answer:
            return Reply(answer.status, _start(answer))
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, _start(error), error.headers.get("Retry-After", ""))
    except urllib.error.URLError as error:
        return Reply(0, _why(error.reason))
    except (OSError, HTTPException, ValueError) as error:  # the last for names that no host has
        return Reply(0, _why(error))


def headers(body: bytes, token: str, secret: str) -> dict[str, str]:
    """Of a JSON body: who sends it, and by what it can be trusted."""
    found = {"Content-Type": "application/json", "User-Agent": "shortfirst"}
    if token:
        found["Authorization"] = f"Bearer {token}"
    if secret:
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        found["X-Shortfirst-Signature"] = f"sha256={signature}"
    return found


def _start(answer: Any) -> str:
    try:
        text: str = answer.read(_READ).decode("utf-8", "replace")
    except (OSError, HTTPException):
        return ""
    return " ".join(text.split())


def _why(error: object) -> str:
    # Messages of HTTPException may quote the address, and so a secret.
    told = getattr(error, "strerror", None)
    return str(told) if told else type(error).__name__
