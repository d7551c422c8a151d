"""What an ONNX file refers to, read off the protocol buffer without the onnx package.

Refused before ONNX Runtime opens it: weights that lie in other files (a path that the file
chooses), operators of libraries that are not ONNX Runtime's own, and functions of the file's own.
Field numbers: ``onnx/onnx.proto3``; the wire format: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

#: ``com.microsoft`` is ONNX Runtime's own, compiled into it.
DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
_MOST_DEPTH = 16
_EXTERNAL = 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

#: Messages that can hold what is looked for: field number -> message there.
_MESSAGES: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 8: "opset", 20: "training", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
    "opset": {},
}
_DOMAIN = {"node": 7, "opset": 1}  # field that holds the name of a set of operators
_LOCATION, _EXTERNAL_DATA = 14, 13  # of a tensor


def check(data: bytes) -> None:
    """Raises ``ValueError`` unless ``data`` is an ONNX model that is whole in itself."""
    try:
        _check(memoryview(data), "model", 0)
    except IndexError:
        raise ValueError("cut short: a field ends after the file does") from None
    fields = {number for number, _, _ in _fields(memoryview(data))}
    if not {1, 7, 8} <= fields:
        raise ValueError("no ONNX model: it has no version, no graph or no operator set")


def _check(data: memoryview, message: str, depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise ValueError("graphs inside graphs, nested too deeply")
    inner = _MESSAGES[message]
    for number, kind, value in _fields(data):
        if message == "tensor" and (
            number == _EXTERNAL_DATA or (number == _LOCATION and value == _EXTERNAL)
        ):
            raise ValueError("weights in another file are not read; export them into this one")
        if number == _DOMAIN.get(message) and isinstance(value, memoryview):
            domain = bytes(value).decode("utf-8", "replace")
            if domain not in DOMAINS:
                raise ValueError(f"operators of {domain[:60]!r} are not run, only {_known()}")
        if number not in inner:
            continue
        if kind != _BYTES or not isinstance(value, memoryview):
            raise ValueError(f"field {number} of a {message} must be a message")
        if inner[number] in ("training", "function"):
            raise ValueError(f"a {inner[number]} part is not run; export the network alone")
        _check(value, inner[number], depth + 1)


def _known() -> str:
    return "those of ONNX and ONNX Runtime"


def _fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Number, wire type and value of each field. Raises ``IndexError`` when the data end early."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"no protocol buffer: wire type {kind}")
        if number == 0:
            raise ValueError("no protocol buffer: field number 0")
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
