"""What an ONNX file refers to, read off the protocol buffer without the onnx package.

Refused before ONNX Runtime opens it: weights that lie in other files (a path that the file
chooses), operators of libraries that are not ONNX Runtime's own, and functions of the file's own.
Field numbers: ``onnx/onnx.proto3``.
"""

from __future__ import annotations

from collections.abc import Mapping

from ranker.protobuf import BYTES, fields

#: ``com.microsoft`` is ONNX Runtime's own, compiled into it.
DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
_MOST_DEPTH = 16
_EXTERNAL = 1

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
    there = {number for number, _, _ in fields(memoryview(data))}
    if not {1, 7, 8} <= there:
        raise ValueError("no ONNX model: it has no version, no graph or no operator set")


def _check(data: memoryview, message: str, depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise ValueError("graphs inside graphs, nested too deeply")
    inner = _MESSAGES[message]
    for number, kind, value in fields(data):
        if number == 0:
            raise ValueError("no protocol buffer: field number 0")
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
        if kind != BYTES or not isinstance(value, memoryview):
            raise ValueError(f"field {number} of a {message} must be a message")
        if inner[number] in ("training", "function"):
            raise ValueError(f"a {inner[number]} part is not run; export the network alone")
        _check(value, inner[number], depth + 1)


def _known() -> str:
    return "those of ONNX and ONNX Runtime"
