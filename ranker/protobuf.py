"""The fields of a protocol buffer, read without its schema (Protocol Buffers, "Encoding")."""

from __future__ import annotations

from collections.abc import Iterator

#: Wire types: how long a value is.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Number, wire type and value of each field, in order.

    Raises ``IndexError`` when the data end early, ``ValueError`` when they are no protocol buffer.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, at = _varint(data, at)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise ValueError(f"no protocol buffer: wire type {kind}")
        if at + size > len(data):
            raise IndexError
        yield number, kind, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("no protocol buffer: a number of more than 64 bits")
