"""A JSON body, bounded before it is read and checked field by field."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from serving.errors import Kind, RequestError, invalid


async def read(chunks: AsyncIterator[bytes], announced: str | None, limit: int) -> bytes:
    """The body, at most ``limit`` bytes. ``announced`` is the Content-Length header.

    Raises TOO_LARGE. A body not far beyond the limit is read and thrown away first: a client that
    is still sending when the connection closes never sees the answer.
    """
    told = int(announced) if announced and announced.isdecimal() else 0
    body, size = bytearray(), 0
    if told <= 16 * limit:
        async for chunk in chunks:
            size += len(chunk)
            if size > 16 * limit:
                break
            if size <= limit and told <= limit:
                body += chunk
            else:
                body.clear()
    if max(size, told) > limit:
        raise RequestError(
            Kind.TOO_LARGE, f"the body must have at most {limit} bytes", code="body_too_large"
        )
    return bytes(body)


def parse(body: bytes) -> Mapping[str, Any]:
    """The object in ``body``. Raises INVALID; the message never quotes the body."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid("", f"the body is not UTF-8 (byte {error.start})") from None
    try:
        # NaN, Infinity and integers of thousands of digits become floats that are not finite, so
        # that the field which holds one is named.
        value = json.loads(text, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise invalid(
            "", f"the body is not JSON: line {error.lineno} column {error.colno}"
        ) from None
    except RecursionError:
        raise invalid("", "the body is nested too deeply") from None
    if not isinstance(value, dict):
        raise invalid("", "the body must be a JSON object")
    return value


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # more digits than Python converts
        return math.inf


class Fields:
    """Takes checked values out of an object. ``where`` is the path of the object, or empty.

    Null counts as absent. Every method raises INVALID naming the field.
    """

    def __init__(self, value: Mapping[str, Any], where: str = "") -> None:
        self._value = value
        self._where = where

    def path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def text(self, name: str) -> str | None:
        value = self._value.get(name)
        return None if value is None else check_text(value, self.path(name))

    def flag(self, name: str) -> bool | None:
        value = self._value.get(name)
        if value is not None and not isinstance(value, bool):
            raise invalid(self.path(name), f"must be true or false, got {kind(value)}")
        return value

    def integer(self, name: str) -> int | None:
        value = self._value.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid(self.path(name), f"must be an integer, got {kind(value)}")
        if abs(value) >= 2**64:  # an answer that repeats it would be as long
            raise invalid(self.path(name), "must be an integer of at most 64 bits")
        return value

    def number(self, name: str) -> float | None:
        value = self._value.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid(self.path(name), f"must be a number, got {kind(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise invalid(self.path(name), "must be finite")
        return number

    def object(self, name: str) -> Fields | None:
        value = self._value.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise invalid(self.path(name), f"must be an object, got {kind(value)}")
        return Fields(value, self.path(name))

    def raw(self, name: str) -> Any:
        return self._value.get(name)

    def only(self, known: Iterable[str], neutral: Mapping[str, tuple[Any, ...]]) -> None:
        """Refuse fields beyond ``known``, but for ``neutral`` ones at a value that asks nothing."""
        allowed = frozenset(known)
        for name, value in self._value.items():
            if name in allowed or value is None:
                continue
            label = self.path(name[:64].encode("utf-8", "replace").decode("utf-8") or '""')
            if name not in neutral:
                raise invalid(label, "is not a field of this request")
            if not any(type(value) is type(n) and value == n for n in neutral[name]):
                raise invalid(label, "is not supported; leave it out")


def check_text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise invalid(path, f"must be a string, got {kind(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise invalid(path, "must be valid Unicode, got half of a surrogate pair") from None
    return value


def kind(value: object) -> str:
    """How JSON calls a value's type."""
    if isinstance(value, bool):
        return "a boolean"
    names = {
        str: "a string",
        int: "an integer",
        float: "a number",
        list: "an array",
        dict: "an object",
    }
    return names.get(type(value), "null")
